#include "kernels/cpu/conv2d_plans.h"

#include <array>
#include <dnnl.hpp>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

using dnnl::memory;

enum class Direction { kForward, kBackwardData, kBackwardWeights };

// Everything that a plan depends on.
using Key = std::array<int64_t, 16>;

Key MakeKey(Direction direction, const Conv2dShape& s, bool bias) {
  const Window2d& w = s.window;
  return {static_cast<int64_t>(direction),
          bias ? 1 : 0,
          s.batch,
          s.in_channels,
          s.height,
          s.width,
          s.out_channels,
          s.groups,
          w.kernel_h,
          w.kernel_w,
          w.stride_h,
          w.stride_w,
          w.padding_h,
          w.padding_w,
          w.dilation_h,
          w.dilation_w};
}

constexpr auto kF32 = memory::data_type::f32;

// Plain descriptions of a convolution's tensors.
struct Plain {
  explicit Plain(const Conv2dShape& s)
      : x({s.batch, s.in_channels, s.height, s.width}, kF32,
          memory::format_tag::nchw),
        b({s.out_channels}, kF32, memory::format_tag::x),
        y({s.batch, s.out_channels, s.OutHeight(), s.OutWidth()}, kF32,
          memory::format_tag::nchw) {
    const Window2d& window = s.window;
    const int64_t in = s.in_channels / s.groups;
    if (s.groups == 1) {
      w = memory::desc({s.out_channels, in, window.kernel_h, window.kernel_w},
                       kF32, memory::format_tag::oihw);
    } else {
      w = memory::desc({s.groups, s.out_channels / s.groups, in,
                        window.kernel_h, window.kernel_w},
                       kF32, memory::format_tag::goihw);
    }
  }

  memory::desc x, w, b, y;
};

memory::desc Any(const memory::desc& plain) {
  return memory::desc(plain.dims(), kF32, memory::format_tag::any);
}

int64_t RoundUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

// One prepared convolution: the primitive, and for each tensor the reorder
// between the caller's plain memory and the primitive's own, which lies in
// the scratch at a fixed offset.
struct Plan {
  struct Port {
    int argument = 0;
    memory caller;
    memory inner;  // the same object as `caller` where no reorder is needed
    bool reorders = false;
    int64_t offset = 0;
    dnnl::reorder reorder;
  };

  dnnl::primitive primitive;
  std::vector<Port> inputs;
  Port output;                // y, dx or dw
  int64_t output_offset = 0;  // of a plain dw
  memory bias;                // b or db
  int64_t bias_offset = 0;    // of db
  memory scratchpad;
  int64_t scratchpad_offset = 0;
  int64_t scratch_bytes = 0;
  std::unordered_map<int, memory> arguments;

  int64_t Reserve(int64_t bytes) {
    const int64_t offset = scratch_bytes;
    scratch_bytes += RoundUp(bytes);
    return offset;
  }

  Port MakePort(const dnnl::engine& engine, int argument,
                const memory::desc& plain, const memory::desc& wanted,
                bool is_output) {
    Port port;
    port.argument = argument;
    port.caller = memory(plain, engine, nullptr);
    port.reorders = wanted != plain;
    if (port.reorders) {
      port.inner = memory(wanted, engine, nullptr);
      port.offset = Reserve(static_cast<int64_t>(wanted.get_size()));
      port.reorder = is_output ? dnnl::reorder(port.inner, port.caller)
                               : dnnl::reorder(port.caller, port.inner);
    } else {
      port.inner = port.caller;
    }
    arguments.emplace(argument, port.inner);
    return port;
  }

  void AddScratchpad(const dnnl::engine& engine, const memory::desc& wanted) {
    scratchpad = memory(wanted, engine, nullptr);
    scratchpad_offset = Reserve(static_cast<int64_t>(wanted.get_size()));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, scratchpad);
  }

  void Run(dnnl::stream& stream, char* scratch) {
    scratchpad.set_data_handle(scratch + scratchpad_offset);
    for (Port& port : inputs) {
      if (!port.reorders) continue;
      port.inner.set_data_handle(scratch + port.offset);
      port.reorder.execute(stream, port.caller, port.inner);
    }
    if (output.reorders) output.inner.set_data_handle(scratch + output.offset);
    primitive.execute(stream, arguments);
    if (output.reorders) {
      output.reorder.execute(stream, output.inner, output.caller);
    }
  }
};

struct Conv2dPlans::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Plan> plans;

  Plan Make(Direction direction, const Conv2dShape& s, bool bias);

  // oneDNN throws; nothing above this file should see that.
  template <typename Body>
  static absl::Status Guard(const Body& body) {
    try {
      return body();
    } catch (const dnnl::error& error) {
      return absl::InternalError(
          absl::StrCat("conv2d: oneDNN says \"", error.what(), "\" (status ",
                       static_cast<int>(error.status), ")"));
    }
  }

  Plan& Find(Direction direction, const Conv2dShape& s, bool bias) {
    const Key key = MakeKey(direction, s, bias);
    const auto found = plans.find(key);
    if (found != plans.end()) return found->second;
    return plans.emplace(key, Make(direction, s, bias)).first->second;
  }
};

Plan Conv2dPlans::State::Make(Direction direction, const Conv2dShape& s,
                              bool bias) {
  const Plain plain(s);
  const Window2d& window = s.window;
  const memory::dims strides{window.stride_h, window.stride_w};
  const memory::dims dilations{window.dilation_h - 1, window.dilation_w - 1};
  const memory::dims before{window.padding_h, window.padding_w};
  // The last windows may end before the padding does.
  const auto after = [](int64_t in, int64_t out, int64_t kernel,
                        int64_t dilation, int64_t stride, int64_t padding) {
    return (out - 1) * stride + (kernel - 1) * dilation + 1 - in - padding;
  };
  const memory::dims behind{
      after(s.height, s.OutHeight(), window.kernel_h, window.dilation_h,
            window.stride_h, window.padding_h),
      after(s.width, s.OutWidth(), window.kernel_w, window.dilation_w,
            window.stride_w, window.padding_w)};
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  // The blocked kernels pad channels up to 16: too much work for a gradient
  // with one to three.
  const bool keep_plain =
      direction == Direction::kBackwardData && s.in_channels / s.groups < 4;
  const auto layout = [keep_plain](const memory::desc& desc) {
    return keep_plain ? desc : Any(desc);
  };
  const memory::desc no_bias;
  const dnnl::convolution_forward::desc forward(
      dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
      layout(plain.x), layout(plain.w), bias ? plain.b : no_bias,
      layout(plain.y), strides, dilations, before, behind);
  const dnnl::convolution_forward::primitive_desc forward_desc(
      forward, attributes, engine);

  Plan plan;
  switch (direction) {
    case Direction::kForward: {
      plan.inputs.push_back(plan.MakePort(engine, DNNL_ARG_SRC, plain.x,
                                          forward_desc.src_desc(), false));
      plan.inputs.push_back(plan.MakePort(engine, DNNL_ARG_WEIGHTS, plain.w,
                                          forward_desc.weights_desc(), false));
      plan.output = plan.MakePort(engine, DNNL_ARG_DST, plain.y,
                                  forward_desc.dst_desc(), true);
      if (bias) {
        plan.bias = memory(plain.b, engine, nullptr);
        plan.arguments.emplace(DNNL_ARG_BIAS, plan.bias);
      }
      plan.AddScratchpad(engine, forward_desc.scratchpad_desc());
      plan.primitive = dnnl::convolution_forward(forward_desc);
      return plan;
    }
    case Direction::kBackwardData: {
      const dnnl::convolution_backward_data::desc backward(
          dnnl::algorithm::convolution_direct, layout(plain.x), layout(plain.w),
          layout(plain.y), strides, dilations, before, behind);
      const dnnl::convolution_backward_data::primitive_desc desc(
          backward, attributes, engine, forward_desc);
      plan.inputs.push_back(plan.MakePort(engine, DNNL_ARG_DIFF_DST, plain.y,
                                          desc.diff_dst_desc(), false));
      plan.inputs.push_back(plan.MakePort(engine, DNNL_ARG_WEIGHTS, plain.w,
                                          desc.weights_desc(), false));
      plan.output = plan.MakePort(engine, DNNL_ARG_DIFF_SRC, plain.x,
                                  desc.diff_src_desc(), true);
      plan.AddScratchpad(engine, desc.scratchpad_desc());
      plan.primitive = dnnl::convolution_backward_data(desc);
      return plan;
    }
    case Direction::kBackwardWeights: {
      const dnnl::convolution_backward_weights::desc backward(
          dnnl::algorithm::convolution_direct, layout(plain.x), layout(plain.w),
          bias ? plain.b : no_bias, layout(plain.y), strides, dilations, before,
          behind);
      const dnnl::convolution_backward_weights::primitive_desc desc(
          backward, attributes, engine, forward_desc);
      plan.inputs.push_back(
          plan.MakePort(engine, DNNL_ARG_SRC, plain.x, desc.src_desc(), false));
      plan.inputs.push_back(plan.MakePort(engine, DNNL_ARG_DIFF_DST, plain.y,
                                          desc.diff_dst_desc(), false));
      plan.output = plan.MakePort(engine, DNNL_ARG_DIFF_WEIGHTS, plain.w,
                                  desc.diff_weights_desc(), true);
      plan.output_offset =
          plan.Reserve(static_cast<int64_t>(plain.w.get_size()));
      if (bias) {
        plan.bias = memory(plain.b, engine, nullptr);
        plan.bias_offset =
            plan.Reserve(static_cast<int64_t>(plain.b.get_size()));
        plan.arguments.emplace(DNNL_ARG_DIFF_BIAS, plan.bias);
      }
      plan.AddScratchpad(engine, desc.scratchpad_desc());
      plan.primitive = dnnl::convolution_backward_weights(desc);
      return plan;
    }
  }
  return plan;
}

Conv2dPlans::Conv2dPlans() : state_(std::make_unique<State>()) {}
Conv2dPlans::~Conv2dPlans() = default;

absl::Status Conv2dPlans::Forward(const Conv2dForwardArgs& a,
                                  ScratchFn scratch) {
  return State::Guard([&]() -> absl::Status {
    Plan& plan = state_->Find(Direction::kForward, a.shape, a.b != nullptr);
    ASSIGN_OR_RETURN(char* const memory, scratch(plan.scratch_bytes));
    plan.inputs[0].caller.set_data_handle(const_cast<float*>(a.x));
    plan.inputs[1].caller.set_data_handle(const_cast<float*>(a.w));
    plan.output.caller.set_data_handle(a.y);
    if (a.b != nullptr) plan.bias.set_data_handle(const_cast<float*>(a.b));
    plan.Run(state_->stream, memory);
    return absl::OkStatus();
  });
}

absl::Status Conv2dPlans::BackwardData(const Conv2dBackwardDataArgs& a,
                                       ScratchFn scratch) {
  return State::Guard([&]() -> absl::Status {
    Plan& plan = state_->Find(Direction::kBackwardData, a.shape, false);
    ASSIGN_OR_RETURN(char* const memory, scratch(plan.scratch_bytes));
    plan.inputs[0].caller.set_data_handle(const_cast<float*>(a.dy));
    plan.inputs[1].caller.set_data_handle(const_cast<float*>(a.w));
    plan.output.caller.set_data_handle(a.dx);
    plan.Run(state_->stream, memory);
    return absl::OkStatus();
  });
}

absl::StatusOr<Conv2dPlans::Gradients> Conv2dPlans::BackwardWeights(
    const Conv2dBackwardWeightsArgs& a, ScratchFn scratch) {
  Gradients gradients;
  RETURN_IF_ERROR(State::Guard([&]() -> absl::Status {
    Plan& plan =
        state_->Find(Direction::kBackwardWeights, a.shape, a.db != nullptr);
    ASSIGN_OR_RETURN(char* const memory, scratch(plan.scratch_bytes));
    plan.inputs[0].caller.set_data_handle(const_cast<float*>(a.x));
    plan.inputs[1].caller.set_data_handle(const_cast<float*>(a.dy));
    plan.output.caller.set_data_handle(memory + plan.output_offset);
    gradients.dw = reinterpret_cast<float*>(memory + plan.output_offset);
    if (a.db != nullptr) {
      plan.bias.set_data_handle(memory + plan.bias_offset);
      gradients.db = reinterpret_cast<float*>(memory + plan.bias_offset);
    }
    plan.Run(state_->stream, memory);
    return absl::OkStatus();
  }));
  return gradients;
}

}  // namespace pipework
