// The version of the product; all four binaries of an installation share it.
#ifndef PIPEWORK_PROTO_VERSION_H_
#define PIPEWORK_PROTO_VERSION_H_

namespace pipework {

constexpr const char kVersion[] = "0.1.0";

}  // namespace pipework

#endif  // PIPEWORK_PROTO_VERSION_H_
