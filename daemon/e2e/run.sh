#!/bin/sh
# Runs one test file; its folder is on Python's path for harness.py.
exec python3 "$@"
