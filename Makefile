# Thin driver over CMake; `make help` lists the targets.
all:
	cmake --preset release >/dev/null
	cmake --build --preset release -j$(JOBS)
JOBS ?= $(shell nproc)
.PHONY: all
