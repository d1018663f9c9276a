# Thin driver over CMake and Ninja: each target installs what it needs (tools/install-deps.sh) and then calls
# the tool that does the work.  `make help` lists the targets.
JOBS      ?= $(shell nproc)
PREFIX    ?= /usr/local
DESTDIR   ?=
FUZZ_TIME ?= 600
GRAPHS    ?= $(if $(TARGET),10000,20000)
CROSS     ?= 300
MODELS    ?= 1000
RULES     ?= 1000
NETS      ?= build/nets
ZOO       ?= build/zoo
ARCH      ?= $(shell uname -m)
DEPS      := tools/install-deps.sh

.PHONY: all wheel deb dist test-packages test-python test-dropin demo test test-long test-cross test-torch test-convert test-clients test-ray asan tsan valgrind coverage mutants clang fuzz fuzz-replay graph-fuzz fuzz-ort test-cuda-text replay replay-update cliffs-update schedule-replay format format-check docs site nets bench-cpu install clean help
.DEFAULT_GOAL := all

all: ## build the program and the libraries: build/tenon, build/libtenon.so, build/libtenon.a
	@$(DEPS) build
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j$(JOBS)

wheel: ## the Python package for glibc 2.28: build/wheel/tenon-*.whl, with LLVM linked into the tenon-codegen that is in it (ARCH=aarch64: for AArch64)
	@$(DEPS) build wheel $(if $(filter aarch64,$(ARCH)),cross)
	@JOBS=$(JOBS) packaging/wheel.sh $(ARCH)

deb: ## Debian packages of this machine's release: build/deb/{tenon,libtenon0,libtenon-dev}_*.deb
	@$(DEPS) build deb
	@JOBS=$(JOBS) packaging/deb.sh build/deb

dist: ## the source tarball of the last commit: build/dist/tenon-VERSION.tar.xz
	@packaging/dist.sh build/dist

test-packages: wheel deb dist ## the packages in Debian systems that debootstrap makes: the wheels' Python tests, the .deb, the tarball, the Dockerfile (root; half an hour)
	@$(MAKE) --no-print-directory -s wheel ARCH=aarch64
	@$(DEPS) packages
	@JOBS=$(JOBS) tests/run.py 'package-*'

test-python: wheel ## the wheel where LLVM cannot be seen, packages written for ONNX Runtime, a minute of threads and forks; installs magika, silero-vad and rapidocr into build/venv-python (3 GB)
	@[ -x build/venv-python/bin/python ] || python3 -m venv build/venv-python
	@build/venv-python/bin/pip -q install numpy onnx onnxruntime auditwheel magika silero-vad rapidocr rapidocr-onnxruntime
	@build/venv-python/bin/python tests/system/wheel_test.py --again
	@build/venv-python/bin/python tests/system/dropin_test.py
	@build/venv-python/bin/python tests/python/stress.py --seconds 60

test-dropin: ## examples of 13 packages that ship their models, unchanged, with onnxruntime and with Tenon in its place; installs them into build/venv-dropin (1 GB); some minutes
	@$(DEPS) build
	@$(MAKE) --no-print-directory -s all
	@[ -x build/venv-dropin/bin/python ] || python3 -m venv build/venv-dropin
	@build/venv-dropin/bin/python tests/system/dropin_packages.py --install $(PACKAGES)

demo: ## compile a real trained model, run it on real input, measure it, make a program of it (FILES="..." asks it about those files)
	@$(DEPS) build demo
	@$(MAKE) --no-print-directory -s all
	@p=build/venv/bin/python; [ -x $$p ] || p=python3; $$p tools/demo.py $(FILES)

test: ## the tests and checks of every change (STEPS="unit 'asan-*'" runs some of tests/steps.txt)
	@$(DEPS) build test cross format demo
	@JOBS=$(JOBS) tests/run.py $(STEPS)

test-long: ## the same, and the whole suites and long campaigns: section [long] of tests/steps.txt, hours (STEPS="'all-*'" runs some)
	@$(DEPS) build test cross format demo
	@JOBS=$(JOBS) tests/run.py --long $(STEPS)

test-cross: ## CROSS (300) node tests of ONNX compiled for AArch64 and RISC-V, with and without vectors, and run under qemu
	@$(DEPS) build test cross
	@$(MAKE) --no-print-directory -s all
	@JOBS=$(JOBS) CROSS=$(CROSS) tests/run.py cross debian-cross

test-torch: ## torch.compile, ATen operators, and networks of PyTorch through ONNX, torch.export and TorchScript; installs PyTorch into build/venv-torch (2 GB)
	@$(DEPS) build
	@$(MAKE) --no-print-directory -s all
	@[ -x build/venv-torch/bin/python ] || python3 -m venv build/venv-torch
	@build/venv-torch/bin/pip -q install torch torchvision transformers onnx onnxscript numpy
	@for kind in export decomposed trace; do build/venv-torch/bin/python tests/torch/torch_ops.py build/tenon $$kind || exit 1; done
	@build/venv-torch/bin/python tests/torch/torch_compile_test.py
	@build/venv-torch/bin/python tests/torch/torch_networks.py build/tenon
	@build/venv-torch/bin/python tests/torch/torch_control.py build/tenon

test-convert: ## what `tenon convert` writes for ONNX's node tests (of TENON_DATA), in ONNX Runtime and in XLA; installs both into build/venv-convert (1 GB)
	@$(DEPS) build
	@$(MAKE) --no-print-directory -s all
	@[ -x build/venv-convert/bin/python ] || python3 -m venv build/venv-convert
	@build/venv-convert/bin/pip -q install onnx onnxruntime jax numpy ml_dtypes
	@mkdir -p build/node-tests && tar xJf $${TENON_DATA:-../shared/data}/suites/onnx-node-tests.tar.xz -C build/node-tests
	@build/venv-convert/bin/python tests/formats/convert_test.py build/tenon build/node-tests/node
	@build/venv-convert/bin/python tests/formats/stablehlo_test.py build/tenon build/node-tests/node

test-clients: ## tenon serve under the clients openai and langchain-openai, as their documents use them; installs them into build/venv-clients
	@$(DEPS) build
	@$(MAKE) --no-print-directory -s all
	@[ -x build/venv-clients/bin/python ] || python3 -m venv build/venv-clients
	@build/venv-clients/bin/pip -q install openai langchain-openai
	@build/venv-clients/bin/python tests/system/openai_clients.py build/tenon

test-ray: ## tenon.serve.ray: two replicas of each kind on a local Ray cluster; installs ray[serve] into build/venv-ray (500 MB)
	@$(DEPS) build
	@$(MAKE) --no-print-directory -s all
	@[ -x build/venv-ray/bin/python ] || python3 -m venv build/venv-ray
	@build/venv-ray/bin/pip -q install 'ray[serve]' numpy
	@build/venv-ray/bin/python tests/system/ray_test.py build/tenon

asan: ## build with AddressSanitizer and UndefinedBehaviorSanitizer, and run the unit tests
	@$(DEPS) build fuzz
	@cmake --preset asan >/dev/null
	@cmake --build --preset asan -j$(JOBS)
	@JOBS=$(JOBS) tests/unit.sh build/asan/tenon-tests

tsan: ## build with ThreadSanitizer, and run the tests of threads, sessions, the API and the cache
	@$(DEPS) build fuzz
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j$(JOBS) --target tenon-tests tenon_cli sanitizer-probe
	@JOBS=$(JOBS) tests/sanitizers/threads.sh build/tsan all

valgrind: ## a selection of the unit tests and of the command line under valgrind's memcheck (10 minutes)
	@$(DEPS) build test
	@$(MAKE) --no-print-directory -s all
	@JOBS=$(JOBS) tests/sanitizers/valgrind.sh build

coverage: ## lines and branches of src/ that the tests execute, by folder: build/coverage/coverage.txt (20 minutes on 2 cores)
	@$(DEPS) build test
	@JOBS=$(JOBS) tools/coverage.py

mutants: ## faults planted in the verifiers, the planner and the rules, and how many the tests catch: build/mutants/result.txt
	@$(DEPS) build
	@$(MAKE) --no-print-directory -s all
	@JOBS=$(JOBS) tools/mutants.py

clang: ## build with clang, warnings are errors
	@$(DEPS) build fuzz
	@cmake --preset clang >/dev/null
	@cmake --build --preset clang -j$(JOBS)

fuzz: ## run every fuzz target for FUZZ_TIME seconds (600)
	@$(DEPS) build fuzz
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j$(JOBS)
	@tests/fuzz/run.sh $(FUZZ_TIME) $(FUZZ)

fuzz-ort: ## MODELS (1000) random ONNX models in the interpreter and in ONNX Runtime, every ninth compiled and the loops of every third interpreted too; failures go to build/fuzz-ort (SEED=1 OP=ArgMin JOBS=2)
	@$(DEPS) build test
	@$(MAKE) --no-print-directory -s all
	@build/venv/bin/python tests/ortfuzz/run.py --models $(MODELS) --jobs $${JOBS:-$$(nproc)} --first $${SEED:-1} $(if $(OP),--op $(OP))

fuzz-replay: ## every input of tests/fuzz/corpus once through its fuzz target
	@$(DEPS) build fuzz
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j$(JOBS) --target fuzz-targets
	@tests/fuzz/replay.sh build/fuzz

graph-fuzz: ## GRAPHS (20000) random graphs and RULES (1000) instances of each rule with a fresh SEED; failures go to build/graphfuzz (TARGET=cpu, c, opencl or ref: 10000 graphs, compiled for it)
	@$(MAKE) --no-print-directory -s all
	@seed=$${SEED:-$$(date +%s)000000}; echo "SEED=$$seed"; \
	  GRAPH_FUZZ=$(GRAPHS) GRAPH_FUZZ_SEED=$$seed RULE_FUZZ=$(RULES) build/tenon-tests $(if $(TARGET),compiled_graph_fuzz_$(TARGET),graph_fuzz rules_keep_the_meaning)

test-cuda-text: all nets ## compile the CUDA texts of all benchmark networks and of 500 random graphs (from SEED) for 8.0 and 9.0a with NVRTC: no GPU, an hour
	@python3 tests/system/cuda_text_test.py build/tenon --graphs 500 --seed $${SEED:-1} $(NETS)/*.onnx
	@python3 tests/system/cuda_text_test.py build/tenon --precision bf16 $(NETS)/*.onnx

REPLAY_DATA   = $${TENON_DATA:-../shared/data}
REPLAY_MODELS = $(NETS)/*.onnx $(foreach p,bf16 tf32,$(NETS)/resnet50.onnx@$p $(NETS)/bert_base.onnx@$p) $(REPLAY_DATA)/models/mobilenet_v2_qdq_onnx/model.onnx@f32
replay: all ## compare every kernel of the op samples and of all benchmark networks on eight described machines with tests/golden/replay
	@if [ ! -d $(REPLAY_DATA)/nets ]; then echo "replay: skipped: no networks in $(REPLAY_DATA)/nets (set TENON_DATA)"; else \
	  $(MAKE) --no-print-directory -s nets && build/tenon-replay -j $(JOBS) --whole --samples $(REPLAY_MODELS); fi

CLIFF_MODELS = $(foreach m,branch conv loop mlp quant rows scan shapes,tests/models/$m.onnx)
CLIFF_NETS   = $(foreach n,lstm squeezenet1_1 mobilenet_v2 resnet50,$(NETS)/$n.onnx)
cliffs-update: all nets ## record anew how many kernels leave a machine idle (tests/golden/cliffs), after a change of kernels that is meant
	@build/tenon-replay --cliffs -j $(JOBS) --update --whole --samples $(CLIFF_MODELS) $(CLIFF_NETS)

schedule-replay: all nets ## give every kernel of all benchmark networks the schedule that `tenon explain --json` prints: it must be the same kernel
	@tests/system/schedule_replay.py $(NETS)/*.onnx

replay-update: all nets ## record those kernels anew, after a change of kernels that is meant
	@build/tenon-replay -j $(JOBS) --update --whole --samples $(REPLAY_MODELS)
	@build/tenon-replay --cliffs -j $(JOBS) --update --whole --samples $(CLIFF_MODELS) $(CLIFF_NETS)

format: ## format every C file
	@$(DEPS) format
	@tools/format.sh

format-check: ## say which C files are not formatted
	@$(DEPS) format
	@tools/format.sh --check

docs: all ## write the generated pages: docs/reference
	@tools/docs.py

site: ## the documentation as a searchable site, by mkdocs: build/site/html
	@$(DEPS) test
	@build/venv/bin/python tools/site.py --check

nets: ## fill the benchmark networks' weights into build/nets, with ONNX Runtime's outputs as references
	@$(DEPS) nets
	@tools/nets.sh

bench-cpu: all nets ## Tenon beside ONNX Runtime, OpenVINO and MNN: docs/benchmarks/cpu.{json,md,svg} (SECTIONS="f32 int8" some, RESUME=1 goes on, NETS, ZOO: folders)
	@bench/peers.py $(SECTIONS) --nets $(NETS) --zoo $(ZOO) $(if $(RESUME),--resume)

install: all ## install under PREFIX (/usr/local); DESTDIR is put in front
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r t d; do printf '  make %-13s %s\n' "$$t" "$$d"; done
