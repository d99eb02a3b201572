# Every target installs what it needs: a fresh clone needs Python 3.11 or newer and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The lock pins all packages. pip compiles on one core, compileall on all. uv installs in a tenth of pip's time, but finds no
# CPU build of torch, and not what only pip is configured to find: then pip does it.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
# Modules that are rarely imported, a third of all: not compiled.
SELDOM := /(tests?|testing|sympy|langchain_community)/|/transformers/models/|/litellm/proxy/
STUDY ?= demo
JOBS ?= auto
SINCE ?= $(shell git rev-parse --verify --quiet origin/main || git rev-parse --verify --quiet main)
DATA ?= ../shared/data
SAMPLE ?= 0
export ASSAY_HOME ?= $(CURDIR)/var
# Tests start many processes: let them share compiled modules.
test: export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup lock sbom demo test test-dagster drill cluster lint format dev docs report bench-grid bench-idle bench-try bench-demo bench-crawl bench-documents bench-cleaning bench-chunks bench-embeddings bench-vectors bench-indexes bench-scale bench-retrieval bench-scifact bench-abstention bench-defaults bench-languages bench-readers bench-made-questions bench-gateway bench-chat bench-serving bench-answers bench-evidence bench-entailment bench-verdict bench-statistics bench-agreement bench-people bench-search bench-imports bench-report bench-matrix bench-pages clean distclean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(READY) ## install everything into .venv (other targets do this too)

$(READY): requirements.lock torch.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rag-assay needs Python 3.11 or newer; say PYTHON=/path/to/it")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (about 2 minutes the first time) ..."
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock && $(INSTALL) --require-hashes -r $(VENV)/uv.lock
	@$(INSTALL) -r torch.lock & torch=$$!; \
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements.lock \
	|| $(INSTALL) --require-hashes -r requirements.lock; code=$$?; wait $$torch && exit $$code
	@$(INSTALL) --no-build-isolation -e .
	@$(BIN)/python -m compileall -qq -j 0 -x '$(SELDOM)' $(VENV)/lib || true # some packages bring templates that are no Python
	@touch $(READY)

lock: $(READY) ## add the digests of all files to each pin of requirements.lock
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.supply lock

sbom: $(READY) ## write run-time dependencies as CycloneDX: sbom.json
	@$(BIN)/python -m benchmarks.supply sbom

demo: $(READY) ## crawl the sample sites, run a real grid on them, show its leaderboard
	@$(BIN)/assay run demo

test: $(READY) ## run tests in parallel, without the end-to-end tests of unchanged packages (SINCE=: all tests; JOBS=1: serially)
	@$(BIN)/python -m pytest -p tests.parallel --jobs $(JOBS) --durations 10 --since "$(SINCE)"

test-dagster: $(READY) ## run the tests of the Dagster definitions with the newest Dagster that pyproject.toml allows
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target "$$folder" 'dagster>=1.13.27,<2' 'dagster-shared<2' 'dagster-pipes<2' && \
	PYTHONPATH="$$folder:src:." $(BIN)/python -m pytest -q -p no:cacheprovider tests/orchestration/test_definitions.py tests/orchestration/test_event_log.py tests/assets/engine

drill: $(READY) ## kill and damage runs in every known way, then in random steps (SEED=7; LONG=1: more of them); each must end with the rows of an undisturbed run
	@$(BIN)/python -m tests.drill --seed $(or $(SEED),7) $(if $(LONG),--points 8 --each 3)
	@$(BIN)/python -m tests.drill.machine --seed $(or $(SEED),7) $(if $(LONG),--examples 40 --steps 25)

cluster: $(READY) ## run studies on two workers with Redis, PostgreSQL and an S3 server; the demo, and every known fault (WHAT="demo faults")
	@$(BIN)/python -m tests.cluster $(WHAT)

lint: $(READY) ## check format, lint, types and the layers of the architecture
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## format the code and fix what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

dev: $(READY) ## open the Dagster UI on http://127.0.0.1:3000 with the studies of the workspace, and the app beside it
	@$(BIN)/assay dev

docs: $(READY) ## build the documentation site into dist/site, and check its links
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict && echo "dist/site/index.html"

report: $(READY) ## write the HTML report of a study that was run (STUDY=demo)
	@$(BIN)/assay report $(STUDY)

bench-grid: $(READY) ## measure orchestration overhead per cell and stage
	@$(BIN)/python -m benchmarks.grid

bench-try: $(READY) ## measure `assay try` on a terminal: first ranking, end, last screen (TARGET=folder; GIF=file: draw it)
	@$(BIN)/python -m benchmarks.trial $(or $(TARGET),docs) $(if $(GIF),--gif $(GIF))

bench-demo: $(READY) ## measure the demo by stage, in seconds of the processor and by the clock
	@$(BIN)/python -m benchmarks.demo

bench-idle: $(READY) ## measure runs with nothing to do: of 1,000 cells and 20,000 calls, the hundredth of a study, by component
	@$(BIN)/python -m benchmarks.idle

bench-crawl: $(READY) ## measure a crawl of 2,000 pages on loopback: pages a second, memory, a second crawl
	@$(BIN)/python -m benchmarks.crawl

bench-documents: $(READY) ## measure cleaning 20,000 documents: documents a second, memory, one changed page
	@$(BIN)/python -m benchmarks.documents

bench-cleaning: $(READY) ## measure the cleaners on real pages (DATA=folder with fundus-de and eurlex-energy, PAGES=usr/share/doc of -doc packages)
	@$(BIN)/python -m benchmarks.cleaning $(DATA)
	@if [ -n "$(PAGES)" ]; then $(BIN)/python -m benchmarks.structure $(PAGES); fi

bench-chunks: $(READY) ## measure every chunker: MB of text a second (DATA=folder with eurlex-energy and xquad)
	@$(BIN)/python -m benchmarks.chunks $(DATA)

bench-embeddings: $(READY) ## measure embedding against the bare model, the fast backend, what a change costs (DATA=folder with scifact)
	@$(BIN)/python -m benchmarks.embeddings $(DATA)

bench-vectors: $(READY) ## measure the vector cache at 0.25, 1 and 4 million vectors: put, look up, memory (VECTORS="250000 1000000")
	@$(BIN)/python -m benchmarks.vector_cache $(VECTORS)

bench-indexes: $(READY) ## measure building, updating and searching indexes: seconds, memory, recall
	@$(BIN)/python -m benchmarks.indexes

bench-scale: $(READY) ## measure a large index: memory of every process, seconds, disk, a plan for 50 million chunks (CHUNKS="50000 200000 1000000")
	@$(BIN)/python -m benchmarks.scale $(CHUNKS)

bench-retrieval: $(READY) ## measure every retriever: latency, and a grid of 16 combinations x 3 chunk sizes; bm25 beside bm25s, if installed (DATA=folder with scifact)
	@$(BIN)/python -m benchmarks.words $(DATA)
	@$(BIN)/python -m benchmarks.retrieval $(DATA) --random-vectors

bench-scifact: $(READY) ## print the table of docs/proof.md (DATA=folder with scifact)
	@$(BIN)/python -m benchmarks.scifact $(DATA)/scifact

bench-abstention: $(READY) ## measure gates: AUROC of each feature of retrieval scores, and thresholds on other questions (DATA=folder with xquad, …)
	@$(BIN)/python -m benchmarks.abstention $(DATA)

bench-defaults: $(READY) ## measure the defaults of bm25, hybrid and every step over several collections (DATA=folder with beir-small, scifact, xquad, …)
	@$(BIN)/python -m benchmarks.defaults $(DATA)
	@$(BIN)/python -m benchmarks.step_defaults $(DATA)

bench-languages: $(READY) ## measure nine languages and six scripts from text to ranking: kept, detected, MRR@10 (DATA=folder with xquad)
	@$(BIN)/python -m benchmarks.languages $(DATA)

bench-readers: $(READY) ## read files of every kind: documents, reasons, words against markitdown and pdftotext (FILES=folder)
	@$(BIN)/python -m benchmarks.readers $(FILES)

bench-made-questions: $(READY) ## compare the order of cells on made questions with that on human-written questions, on the sample site
	@$(BIN)/python -m benchmarks.made_questions

bench-gateway: $(READY) ## measure the gateway's overhead against targets: 320 calls, rate limits, faults, 256 in flight, a second run, a kill, drafts (STUDY=one that was run, with a local model)
	@$(BIN)/python -m benchmarks.gateway $(if $(filter command line,$(origin STUDY)),--study $(STUDY))

bench-chat: $(READY) ## measure 20 conversations at once with a scripted model: overhead, mixed-up and lost answers (SECONDS=120)
	@$(BIN)/python -m benchmarks.chat $(if $(SECONDS),--seconds $(SECONDS))

bench-serving: $(READY) ## measure assay serve: 32 clients for a minute, then 2,000 half-sent requests; latency, errors, /health (SECONDS=60)
	@$(BIN)/python -m benchmarks.serving $(if $(SECONDS),--seconds $(SECONDS))

bench-answers: $(READY) ## measure extractive answers to 1,000 questions, and after `make demo` to follow-ups; fit their weights (DATA=folder with xquad)
	@$(BIN)/python -m benchmarks.answers $(DATA)
	@$(BIN)/python -m benchmarks.answer_weights $(DATA)
	@$(BIN)/python -m benchmarks.follow_ups $(DATA)

bench-evidence: $(READY) ## measure how evidence is found by similarity (DATA=folder with scifact, xquad, blog-18f, beir-small)
	@$(BIN)/python -m benchmarks.evidence $(DATA)

bench-entailment: $(READY) ## measure how well judges detect entailment: ROC AUC on claims (DATA=folder with scifact; SAMPLE=so many pairs)
	@$(BIN)/python -m benchmarks.entailment $(DATA) --sample $(SAMPLE)

bench-imports: $(READY) ## measure the import of a spreadsheet of 100,000 rows: seconds and memory, and again
	@$(BIN)/python -m benchmarks.imports

bench-report: $(READY) ## measure the report of a million scores: seconds to read, compute, render and open, sizes
	@$(BIN)/python -m benchmarks.report

bench-matrix: $(READY) ## measure the page Questions with 1,000 questions and 100 pipelines: seconds to read and to open
	@$(BIN)/python -m benchmarks.matrix

bench-pages: $(READY) ## measure how soon the pages of the app open with the demo, and write their pictures to docs
	@$(BIN)/python -m tests.docs.app_screenshots $(ASSAY_HOME)

bench-verdict: $(READY) ## measure the verdict on simulated studies: false claims, regret, chances, intervals, seconds (STUDIES=600)
	@$(BIN)/python -m benchmarks.verdict --studies $(or $(STUDIES),600)

bench-statistics: $(READY) ## measure intervals of means and differences on simulated studies
	@$(BIN)/python -m benchmarks.statistics

bench-agreement: $(READY) ## measure how often the interval of Krippendorff's alpha holds the truth, on simulated annotators
	@$(BIN)/python -m benchmarks.agreement

bench-people: $(READY) ## measure estimates from few human ratings and many judgements: coverage, ratings saved (DATA=folder with scifact)
	@$(BIN)/python -m benchmarks.people $(DATA)

bench-search: $(READY) ## measure searches against whole grids: share asked, regret, how often their bounds hold (DATA=folder with beir-small, or STUDY=one that was run; RUNS=so many seeds)
	@$(BIN)/python -m benchmarks.search $(DATA) $(if $(STUDY),--study $(STUDY)) $(if $(METRIC),--metric $(METRIC)) $(if $(RUNS),--runs $(RUNS))

clean: ## remove stored results (var/); keep model weights
	@if [ -d "$(ASSAY_HOME)" ]; then find "$(ASSAY_HOME)" -mindepth 1 -maxdepth 1 ! -name models -exec rm -rf {} +; fi
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environment and the model weights too
	@rm -rf $(VENV) "$(ASSAY_HOME)"
