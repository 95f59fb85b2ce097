#include "daemon/transport/socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/clock.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Resolve(const std::string& host, int port,
                                  bool passive) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const int error =
      ::getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("host \"", host, "\": ", ::gai_strerror(error)));
  }
  return Addresses(list);
}

int PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  HostPort out;
  const size_t colon = text.rfind(':');
  bool good = colon != absl::string_view::npos && colon > 0 &&
              absl::SimpleAtoi(text.substr(colon + 1), &out.port) &&
              out.port > 0 && out.port < 65536;
  if (good) {
    absl::string_view host = text.substr(0, colon);
    if (host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != absl::string_view::npos) {
      good = false;  // an IPv6 address without its brackets
    }
    good = good && !host.empty();
    out.host = std::string(host);
  }
  if (!good) {
    return Mismatch("data plane", "an address", absl::StrCat("\"", text, "\""),
                    "host:port or [ipv6]:port");
  }
  return out;
}

std::string JoinHostPort(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos && host[0] != '[';
  return ipv6 ? absl::StrCat("[", host, "]:", port)
              : absl::StrCat(host, ":", port);
}

absl::StatusOr<Listener> Listen(const std::string& host, int first, int last) {
  std::string cause = "no port in the range";
  for (int port = first; port <= std::max(first, last); ++port) {
    ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port, true));
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      UniqueFd fd(::socket(a->ai_family,
                           SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const int one = 1;
      if (fd.valid()) {
        // A port in TIME_WAIT may be taken again.
        ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
      }
      if (!fd.valid() || ::bind(fd.get(), a->ai_addr, a->ai_addrlen) != 0 ||
          ::listen(fd.get(), 128) != 0) {
        cause = std::strerror(errno);
        continue;
      }
      Listener listener;
      listener.port = PortOf(fd.get());
      listener.fd = std::move(fd);
      return listener;
    }
  }
  return absl::UnavailableError(absl::StrCat(
      "data plane: cannot listen on ", host, ", ports ", first, " to ",
      std::max(first, last), ": ", cause, "; choose another range of ports"));
}

void TuneSocket(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

absl::StatusOr<UniqueFd> Dial(const std::string& address, absl::Time deadline) {
  ASSIGN_OR_RETURN(const HostPort target, ParseHostPort(address));
  ASSIGN_OR_RETURN(const Addresses addresses,
                   Resolve(target.host, target.port, false));
  std::string cause = "no address";
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    UniqueFd fd(
        ::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) {
      cause = std::strerror(errno);
      continue;
    }
    int error = 0;
    if (::connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS) {
      pollfd entry = {fd.get(), POLLOUT, 0};
      int ready = 0;
      while (ready <= 0 && MonotonicNow() < deadline) {
        ready = ::poll(&entry, 1, PollTimeout(deadline));
      }
      if (ready <= 0) {
        return absl::DeadlineExceededError(
            absl::StrCat(address, ": no answer by the deadline"));
      }
      socklen_t size = sizeof error;
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) {
      TuneSocket(fd.get());
      return fd;
    }
    cause = std::strerror(error);
  }
  return absl::UnavailableError(absl::StrCat(address, ": ", cause));
}

std::string PeerName(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host,
                    sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  return JoinHostPort(host, std::atoi(port));
}

Interface InterfaceOf(const std::string& host) {
  Interface found;
  const auto wanted = Resolve(host, 0, true);
  if (!wanted.ok()) return found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr && found.name.empty();
       i = i->ifa_next) {
    const sockaddr* want = (*wanted)->ai_addr;
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != want->sa_family) {
      continue;
    }
    const bool same =
        want->sa_family == AF_INET
            ? reinterpret_cast<const sockaddr_in*>(want)->sin_addr.s_addr ==
                  reinterpret_cast<const sockaddr_in*>(i->ifa_addr)
                      ->sin_addr.s_addr
            : want->sa_family == AF_INET6 &&
                  std::memcmp(
                      &reinterpret_cast<const sockaddr_in6*>(want)->sin6_addr,
                      &reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)
                           ->sin6_addr,
                      sizeof(in6_addr)) == 0;
    // 127.0.0.2 is on the loopback interface too.
    const bool loopback =
        (i->ifa_flags & IFF_LOOPBACK) != 0 && absl::StartsWith(host, "127.");
    if (!same && !loopback) continue;
    found.name = i->ifa_name;
    // "eth0:1" is a label of eth0.
    found.name.resize(std::min(found.name.size(), found.name.find(':')));
    found.running = (i->ifa_flags & IFF_RUNNING) != 0;
  }
  ::freeifaddrs(list);
  return found;
}

}  // namespace pipework
