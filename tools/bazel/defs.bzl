"""The macros of this tree's build files. README.md beside it has examples."""

# ---- protocol buffers --------------------------------------------------------

_ProtoFiles = provider(fields = ["files"])

def _protoc(ctx, sources, outputs, mnemonic, flags):
    ctx.actions.run_shell(
        inputs = sources,
        outputs = outputs,
        command = "protoc -I. --plugin=protoc-gen-grpc=" +
                  "$(command -v grpc_cpp_plugin) \"$@\"",
        arguments = flags + [f.path for f in ctx.files.srcs],
        mnemonic = mnemonic,
        use_default_shell_env = True,
    )

def _pipe_proto_files_impl(ctx):
    sources = depset(
        ctx.files.srcs,
        transitive = [dep[_ProtoFiles].files for dep in ctx.attr.deps],
    )
    bin_dir = ctx.bin_dir.path
    descriptor = ctx.outputs.descriptor
    _protoc(ctx, sources, ctx.outputs.cc, "Protoc", ["--cpp_out=" + bin_dir])
    _protoc(ctx, sources, [descriptor], "ProtocDescriptor", [
        "--include_source_info",
        "--include_imports",
        "--descriptor_set_out=" + descriptor.path,
    ])
    if ctx.outputs.grpc:
        flags = ["--grpc_out=" + bin_dir]
        _protoc(ctx, sources, ctx.outputs.grpc, "ProtocGrpc", flags)
    return [
        _ProtoFiles(files = sources),
        DefaultInfo(files = depset(ctx.files.srcs)),
    ]

_pipe_proto_files = rule(
    implementation = _pipe_proto_files_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".proto"]),
        "deps": attr.label_list(providers = [_ProtoFiles]),
        "cc": attr.output_list(),
        "grpc": attr.output_list(),
        "descriptor": attr.output(),
    },
)

def _full(label):
    """//proto -> //proto:proto, so that a suffix can be added."""
    if ":" in label:
        return label
    return label + ":" + label.split("/")[-1]

def pipe_proto(name, srcs, deps = [], grpc = False, **kwargs):
    """Messages (`name`), and with grpc = True service stubs (`name_grpc`).

    Also `name_descriptor.bin`: a FileDescriptorSet with imports and comments.

    Args:
      name: the target of the messages; include "path/from/root/<src>.pb.h".
      srcs: .proto files; they import each other from the workspace root.
      deps: other pipe_proto targets whose files are imported.
      grpc: whether the files hold services; "<src>.grpc.pb.h" is then made for
          each of them.
      **kwargs: visibility, tags, testonly.
    """
    stems = [src[:-len(".proto")] for src in srcs]
    _pipe_proto_files(
        name = name + "_protos",
        srcs = srcs,
        deps = [_full(dep) + "_protos" for dep in deps],
        cc = [s + ext for s in stems for ext in [".pb.h", ".pb.cc"]],
        grpc = [
            s + ext
            for s in stems
            for ext in [".grpc.pb.h", ".grpc.pb.cc"]
        ] if grpc else [],
        descriptor = name + "_descriptor.bin",
        **kwargs
    )
    native.cc_library(
        name = name,
        srcs = [s + ".pb.cc" for s in stems],
        hdrs = [s + ".pb.h" for s in stems],
        copts = ["-w"],
        deps = deps + ["@system//:protobuf"],
        **kwargs
    )
    if grpc:
        native.cc_library(
            name = name + "_grpc",
            srcs = [s + ".grpc.pb.cc" for s in stems],
            hdrs = [s + ".grpc.pb.h" for s in stems],
            copts = ["-w"],
            deps = [":" + name, "@system//:grpc"],
            **kwargs
        )

# ---- tests -------------------------------------------------------------------

def pipe_test(
        name,
        srcs,
        deps = [],
        size = "small",
        tags = [],
        testing_only = False,
        **kwargs):
    """A Catch2 test program. A failing case fails the target.

    Args:
      name: the target.
      srcs: files of TEST_CASEs; none has a main.
      deps: what they test.
      size: small, medium or large.
      tags: "full": only in tools/check --full. "san_sample", "tsan_sample":
          run under the sanitizers in the quick check too; "no_san": never.
          "golden": for tools/regen. "exclusive": alone on the machine.
      testing_only: needs --config=testing (failpoints, --break); skipped
          otherwise. tools/check runs it.
      **kwargs: data, args, env, timeout, ...
    """
    if testing_only:
        tags = tags + ["testing_only"]
        kwargs["target_compatible_with"] = select({
            "//:testing": [],
            "//conditions:default": ["//tools/bazel:never"],
        })
    native.cc_test(
        name = name,
        srcs = srcs,
        deps = deps + ["//tools/bazel:catch_main"],
        size = size,
        tags = tags,
        **kwargs
    )

def pipe_fuzz(name, srcs, corpus, deps = [], tags = [], **kwargs):
    """A test that feeds every file of `corpus` to LLVMFuzzerTestOneInput.

    With --config=fuzz the same target is a libFuzzer program, and running it
    as a test replays the corpus under the sanitizers; tools/fuzz lets it search
    for new inputs.

    Args:
      name: the target; by habit <what>_fuzz_test.
      srcs: the file that defines LLVMFuzzerTestOneInput.
      corpus: stored inputs, at least one.
      deps: what it feeds.
      tags: as for pipe_test; "fuzz" is added.
      **kwargs: size, data, ...
    """
    native.cc_test(
        name = name,
        srcs = srcs,
        deps = deps + select({
            "//:fuzz": [],
            "//conditions:default": ["//tools/bazel:fuzz_replay"],
        }),
        linkopts = select({
            "//:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        data = corpus + kwargs.pop("data", []),
        args = ["$(locations %s)" % c for c in corpus],
        tags = tags + ["fuzz"],
        size = kwargs.pop("size", "small"),
        **kwargs
    )

# ---- data in programs --------------------------------------------------------

def embed_files(name, srcs, **kwargs):
    """Files as a constant table in the header "<package>/<name>.h".

    pipework::<name>::kFiles is an array of {name, bytes}, `name` being the
    file's path from the workspace root; Find(path) looks one up.
    """
    native.genrule(
        name = name + "_gen",
        srcs = srcs,
        outs = [name + ".h", name + ".cc"],
        tools = ["//tools/bazel:embed.py"],
        cmd = "python3 $(location //tools/bazel:embed.py) %s %s $(OUTS) $(SRCS)" %
              (name, native.package_name()),
    )
    native.cc_library(
        name = name,
        srcs = [name + ".cc"],
        hdrs = [name + ".h"],
        **kwargs
    )

def copy_binary(name, src, **kwargs):
    """Puts a program built elsewhere into this package's folder as `name`."""
    native.genrule(
        name = name + "_copy",
        srcs = [src],
        outs = [name],
        cmd = "cp -f $(location %s) $@ && chmod 755 $@" % src,
        executable = True,
        **kwargs
    )

# ---- CUDA --------------------------------------------------------------------

# Turing and later; the last one also as PTX, for what comes after it.
_NVCC_FLAGS = [
    "-std=c++17",
    "-O3",
    "--generate-code=arch=compute_75,code=sm_75",
    "--generate-code=arch=compute_80,code=sm_80",
    "--generate-code=arch=compute_90,code=[sm_90,compute_90]",
    "-Xcompiler=-fPIC,-Wall,-Wextra,-Werror,-Wno-unused-parameter",
]

_NVCC = """
nvcc="$$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)"
if [ ! -x "$$nvcc" ]; then
  echo "{target}: there is no nvcc in PATH or in /usr/local/cuda/bin;" \
       "install the CUDA toolkit, or build without --config=cuda" >&2
  exit 1
fi
"$$nvcc" {flags} -I. -I$(BINDIR) -lib -o $@ {srcs}
"""

def nvcc_library(name, srcs, hdrs, deps = [], textual = [], copts = [], **kwargs):
    """.cu files through nvcc into a library; exists only in --config=cuda.

    Args:
      name: the target.
      srcs: .cu files.
      hdrs: headers that C++ includes; nvcc sees them too.
      deps: libraries that the code calls, such as @cuda//:cudart (always
          added). nvcc sees no headers but CUDA's, `hdrs` and `textual`.
      textual: further headers that the .cu files include.
      copts: more flags for nvcc.
      **kwargs: visibility, tags.
    """
    only_cuda = select({
        "//:cuda": [],
        "//conditions:default": ["//tools/bazel:never"],
    })
    native.genrule(
        name = name + "_nvcc",
        srcs = srcs + hdrs + textual,
        outs = ["lib" + name + "_cu.a"],
        cmd = _NVCC.format(
            target = "//%s:%s" % (native.package_name(), name),
            flags = " ".join(["'%s'" % f for f in _NVCC_FLAGS + copts]),
            srcs = " ".join(["$(location %s)" % s for s in srcs]),
        ),
        tags = ["cuda"],
        target_compatible_with = only_cuda,
    )
    native.cc_library(
        name = name,
        srcs = ["lib" + name + "_cu.a"],
        hdrs = hdrs,
        # In a select, or machines without the toolkit would look for it.
        deps = select({
            "//:cuda": deps + ["@cuda//:cudart"],
            "//conditions:default": [],
        }),
        target_compatible_with = only_cuda,
        **kwargs
    )
