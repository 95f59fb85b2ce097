#include "daemon/transport/ucx_worker.h"

#include <spdlog/spdlog.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr unsigned kMessageAm = 1;

absl::Status UcxStatus(absl::string_view what, ucs_status_t status) {
  if (status == UCS_OK) return absl::OkStatus();
  const std::string text =
      absl::StrCat("UCX: ", what, ": ", ucs_status_string(status));
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return absl::ResourceExhaustedError(text);
    case UCS_ERR_CANCELED:
      return absl::CancelledError(text);
    default:
      return absl::UnavailableError(text);
  }
}

// UCX writes to standard output, and a killed peer is no error of ours: its
// lines go to our log, at debug.
ucs_log_func_rc_t LogLine(const char* file, unsigned line, const char* function,
                          ucs_log_level_t level,
                          const ucs_log_component_config_t* component,
                          const char* format, va_list args) {
  char text[1024];
  std::vsnprintf(text, sizeof text, format, args);
  spdlog::debug("ucx: {}", text);
  return UCS_LOG_FUNC_RC_STOP;
}

// UCX reads its settings from the environment only, while a worker is made:
// they are there for that long. What a user has set stays. One at a time.
class Settings {
 public:
  explicit Settings(const UcxWorker::Options& options) : lock_(TheMutex()) {
    static bool first = true;
    if (first && std::getenv("UCX_LOG_LEVEL") == nullptr) {
      ucs_log_push_handler(&LogLine);
    }
    first = false;
    Set("UCX_TLS", "tcp,self");
    // A dead link shows within five seconds.
    Set("UCX_KEEPALIVE_INTERVAL", "2s");
    Set("UCX_TCP_KEEPIDLE", "2s");
    Set("UCX_TCP_KEEPINTVL", "1s");
    Set("UCX_TCP_KEEPCNT", "3");
    Set("UCX_WARN_UNUSED_ENV_VARS", "n");
    if (!options.interface.empty()) Set("UCX_NET_DEVICES", options.interface);
    if (options.port_first > 0) {
      Set("UCX_TCP_PORT_RANGE",
          absl::StrCat(options.port_first, "-", options.port_last));
    }
  }
  ~Settings() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }

 private:
  static std::mutex& TheMutex() {
    static std::mutex mutex;
    return mutex;
  }
  void Set(const std::string& name, const std::string& value) {
    if (std::getenv(name.c_str()) != nullptr) return;
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
    names_.push_back(name);
  }

  std::lock_guard<std::mutex> lock_;
  std::vector<std::string> names_;
};

class Worker final : public UcxWorker {
 public:
  explicit Worker(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  ~Worker() override;

  absl::Status Start(const Options& options);

  const std::string& address() const override { return address_; }
  absl::StatusOr<int> Connect(const std::string& address) override;
  void Close(int endpoint) override;
  void Send(int endpoint, std::string header, const void* payload,
            size_t payload_bytes, Done done) override;
  void Fetch(Payload payload, void* into, size_t bytes, Done done) override;
  void Release(Payload payload) override;
  void Flush(Done done) override;
  bool Progress() override;
  bool Arm() override { return ucp_worker_arm(worker_) == UCS_OK; }
  int event_fd() const override { return event_fd_; }

 private:
  // One operation on its way; freed by its completion.
  struct Operation {
    Worker* worker;
    const char* what;
    std::string header;
    Done done;
  };
  // A payload in UCX's hands, or copied out of them.
  struct Held {
    void* descriptor = nullptr;  // null: `copy` has it
    std::string copy;
    uint64_t bytes = 0;
  };
  struct Slot {
    Worker* worker;
    int index;
    ucp_ep_h ep;
  };

  static ucs_status_t OnMessage(void* self, const void* header,
                                size_t header_bytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* param);
  static void OnError(void* slot, ucp_ep_h ep, ucs_status_t status);
  static void OnSent(void* request, ucs_status_t status, void* user);
  static void OnFetched(void* request, ucs_status_t status, size_t bytes,
                        void* user);
  // UCX has the operation until it is completed.
  Operation* Begin(const char* what, std::string header, Done done);
  // Completes at once where UCX did, else leaves that to the callback.
  static void Settle(ucs_status_ptr_t request, Operation* operation);
  static void Complete(Operation* operation, ucs_status_t status);

  const Callbacks callbacks_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::string address_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::map<Payload, Held> held_;
  Payload next_payload_ = 1;
  int64_t operations_ = 0;
};

absl::Status Worker::Start(const Options& options) {
  ucp_config_t* config = nullptr;
  RETURN_IF_ERROR(
      UcxStatus("read settings", ucp_config_read(nullptr, nullptr, &config)));
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const ucs_status_t made = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  RETURN_IF_ERROR(UcxStatus("start", made));

  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
  RETURN_IF_ERROR(UcxStatus(
      "make a worker", ucp_worker_create(context_, &worker_params, &worker_)));
  RETURN_IF_ERROR(
      UcxStatus("event descriptor", ucp_worker_get_efd(worker_, &event_fd_)));

  ucp_am_handler_param_t handler = {};
  handler.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageAm;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = &Worker::OnMessage;
  handler.arg = this;
  RETURN_IF_ERROR(UcxStatus("set a handler",
                            ucp_worker_set_am_recv_handler(worker_, &handler)));

  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  RETURN_IF_ERROR(UcxStatus("worker address",
                            ucp_worker_get_address(worker_, &address, &bytes)));
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  return absl::OkStatus();
}

Worker::~Worker() {
  if (worker_ != nullptr) {
    while (!held_.empty()) Release(held_.begin()->first);
    for (size_t i = 0; i < slots_.size(); ++i) Close(static_cast<int>(i));
    // Operations given up complete here; a bound, since a peer cannot be
    // trusted to let them.
    for (int i = 0; i < 100000 && operations_ > 0; ++i) Progress();
    ucp_worker_destroy(worker_);
  }
  if (context_ != nullptr) ucp_cleanup(context_);
}

absl::StatusOr<int> Worker::Connect(const std::string& address) {
  auto slot = std::make_unique<Slot>();
  slot->worker = this;
  slot->index = static_cast<int>(slots_.size());
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &Worker::OnError;
  params.err_handler.arg = slot.get();
  RETURN_IF_ERROR(UcxStatus("make an endpoint",
                            ucp_ep_create(worker_, &params, &slot->ep)));
  slots_.push_back(std::move(slot));
  return slots_.back()->index;
}

void Worker::Close(int endpoint) {
  Slot& slot = *slots_[endpoint];
  if (slot.ep == nullptr) return;
  ucp_request_param_t param = {};
  Operation* const operation = Begin("close", "", [](const absl::Status&) {});
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = &Worker::OnSent;
  param.user_data = operation;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(slot.ep, &param);
  slot.ep = nullptr;
  Settle(request, operation);
}

Worker::Operation* Worker::Begin(const char* what, std::string header,
                                 Done done) {
  ++operations_;
  return std::make_unique<Operation>(
             Operation{this, what, std::move(header), std::move(done)})
      .release();
}

void Worker::Complete(Operation* operation, ucs_status_t status) {
  const std::unique_ptr<Operation> owned(operation);
  --owned->worker->operations_;
  owned->done(UcxStatus(owned->what, status));
}

void Worker::Settle(ucs_status_ptr_t request, Operation* operation) {
  if (UCS_PTR_IS_PTR(request)) return;
  Complete(operation, UCS_PTR_RAW_STATUS(request));
}

void Worker::OnSent(void* request, ucs_status_t status, void* user) {
  Complete(static_cast<Operation*>(user), status);
  ucp_request_free(request);
}

void Worker::OnFetched(void* request, ucs_status_t status, size_t bytes,
                       void* user) {
  OnSent(request, status, user);
}

void Worker::Send(int endpoint, std::string header, const void* payload,
                  size_t payload_bytes, Done done) {
  Slot& slot = *slots_[endpoint];
  if (slot.ep == nullptr) {
    done(absl::UnavailableError("UCX: send: the endpoint is closed"));
    return;
  }
  Operation* const operation =
      Begin("send", std::move(header), std::move(done));
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &Worker::OnSent;
  param.user_data = operation;
  Settle(
      ucp_am_send_nbx(slot.ep, kMessageAm, operation->header.data(),
                      operation->header.size(), payload, payload_bytes, &param),
      operation);
}

ucs_status_t Worker::OnMessage(void* self, const void* header,
                               size_t header_bytes, void* data, size_t bytes,
                               const ucp_am_recv_param_t* param) {
  auto* worker = static_cast<Worker*>(self);
  Held held;
  held.bytes = bytes;
  const bool keep = (param->recv_attr & (UCP_AM_RECV_ATTR_FLAG_RNDV |
                                         UCP_AM_RECV_ATTR_FLAG_DATA)) != 0;
  if (keep) {
    held.descriptor = data;
  } else {
    held.copy.assign(static_cast<const char*>(data), bytes);
  }
  const Payload payload = worker->next_payload_++;
  worker->held_.emplace(payload, std::move(held));
  worker->callbacks_.on_message(
      std::string(static_cast<const char*>(header), header_bytes), bytes,
      payload);
  return keep ? UCS_INPROGRESS : UCS_OK;
}

void Worker::Fetch(Payload payload, void* into, size_t bytes, Done done) {
  const auto it = held_.find(payload);
  Held held = std::move(it->second);
  held_.erase(it);
  if (held.descriptor == nullptr) {
    held.copy.copy(static_cast<char*>(into), bytes);
    done(absl::OkStatus());
    return;
  }
  Operation* const operation = Begin("receive", "", std::move(done));
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &Worker::OnFetched;
  param.user_data = operation;
  Settle(ucp_am_recv_data_nbx(worker_, held.descriptor, into, bytes, &param),
         operation);
}

void Worker::Release(Payload payload) {
  const auto it = held_.find(payload);
  if (it->second.descriptor != nullptr) {
    ucp_am_data_release(worker_, it->second.descriptor);
  }
  held_.erase(it);
}

void Worker::Flush(Done done) {
  Operation* const operation = Begin("flush", "", std::move(done));
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &Worker::OnSent;
  param.user_data = operation;
  Settle(ucp_worker_flush_nbx(worker_, &param), operation);
}

void Worker::OnError(void* slot, ucp_ep_h ep, ucs_status_t status) {
  auto* s = static_cast<Slot*>(slot);
  s->worker->callbacks_.on_endpoint_error(s->index,
                                          UcxStatus("connection", status));
}

bool Worker::Progress() { return ucp_worker_progress(worker_) != 0; }

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(
    const Options& options, Callbacks callbacks) {
  const Settings settings(options);
  auto worker = std::make_unique<Worker>(std::move(callbacks));
  RETURN_IF_ERROR(worker->Start(options));
  return worker;
}

}  // namespace pipework
