#!/usr/bin/env bash
# Runs a program without address space randomisation where that is allowed:
# the sanitizers of GCC 12 and clang 14 cannot place their shadow memory under
# kernels that randomise 32 bits.
if setarch -R true 2> /dev/null; then
  exec setarch -R "$@"
fi
exec "$@"
