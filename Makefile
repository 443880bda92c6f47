# Every target sets up what it needs in .venv, see setup.sh. ARGS="..." is passed on: make test ARGS="-k verifier".

.DEFAULT_GOAL := help
.PHONY: help demo serve studio test lint format evaluate train install wheels clean

BIN := .venv/bin
RUN := .venv/installed
DEV := .venv/installed-dev
INPUTS := setup.sh pyproject.toml servers/pyproject.toml

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: $(RUN) ## start the miniature pair, ask it questions, show the routes taken, stop it
	$(BIN)/mai-graph demo $(ARGS)

serve: $(RUN) ## start the small and the large server until Ctrl-C; ARGS="--config qwen3-vl-2b-8b-1gpu"
	$(BIN)/mai-graph serve $(ARGS)

studio: $(DEV) ## the graph in LangGraph Studio's local server; needs `make serve` in another terminal
	$(BIN)/langgraph dev $(ARGS)

test: $(DEV) ## all tests, on real vLLM servers too
	$(BIN)/pytest $(ARGS)

lint: $(DEV) ## style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(DEV) ## put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

evaluate: $(RUN) ## accuracies and routes of the miniature pair on 1,000 held-out scenes
	$(BIN)/python -m mai_servers.tiny.evaluate $(ARGS)

train: $(RUN) ## train the miniature pair anew: under 2 hours on 2 cores; replaces the weights
	$(BIN)/python -m mai_servers.tiny.train $(ARGS)

install: $(RUN) ## only set up: .venv/bin/mai-graph --help

wheels: $(RUN) ## build both distributions into dist/
	$(BIN)/python -m pip wheel --no-deps --wheel-dir dist . ./servers

clean: ## remove .venv and all that was built
	rm -rf .venv build dist demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .langgraph_api
	find . -name __pycache__ -prune -exec rm -rf {} +

$(RUN): $(INPUTS)
	./setup.sh
	touch $@

$(DEV): $(INPUTS)
	./setup.sh dev
	touch $(RUN) $@
