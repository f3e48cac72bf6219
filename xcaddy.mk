# Build, run and test Caddy with pay_offer: make -f xcaddy.mk help

MODULE  := github.com/payoffer/caddy-pay-offer
# The flags that xcaddy builds with; with others, nearly everything is compiled again. The tag release leaves the demo out.
FLAGS   := -trimpath -ldflags '-w -s' -tags nobadger,nomysql,nopgx,release
# Flags for the tests of the plugin, such as -race (which needs a C compiler and CGO_ENABLED=1).
TESTFLAGS ?=
# For the benchmark: the rows of its table by name, all if empty, and how often those that are compared take turns.
ROWS      ?=
ROUNDS    ?= 9

export CGO_ENABLED ?= 0

.PHONY: help build run test test-plugin test-binary bench

help: ## List the targets.
	@sed -n 's/^\([a-z]*\):.*## /  \1	/p' xcaddy.mk

# xcaddy looks this module up by its name before it uses the folder. GOPROXY is limited to one proxy, so that no other host is asked.
build: ## Build bin/caddy: through xcaddy where it is installed, else by go build with the same flags.
	@mkdir -p bin
	@if command -v xcaddy >/dev/null 2>&1; then \
		GOPROXY="$$(go env GOPROXY | cut -d, -f1)|off" xcaddy build $$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2) \
			--with $(MODULE)/payoffer --replace $(MODULE)=. --output bin/caddy; \
	else \
		go build $(FLAGS) -o bin/caddy ./caddy; \
	fi

run: ## Start the shipped Caddyfile on loopback: service on port 8402, site on port 8403.
	go run ./caddy run

# The tests wait for disks, PostgreSQL, other processes, polls and the browser much of the time, so more packages run at once
# than there are processors, those of the plugin beside those of the built binary. The slowest packages start first; those
# with a browser wait for one another. Results of the built binary are never taken from the test cache, which cannot see it.
# Memory is collected less often than by default, which saves a quarter of the time. Tests that need a missing program write
# its name into bin/skipped. Because that file changes, their results are never taken from the test cache either.
test: export GOGC ?= 400
test: export PAY_OFFER_RUN := $(shell date +%s)
test: export PAY_OFFER_SKIPPED := $(CURDIR)/bin/skipped
test: ## Run the tests of the plugin and those of the built binary.
	@mkdir -p bin && : >bin/skipped
	@status=0; $(MAKE) -f xcaddy.mk -j2 test-plugin test-binary || status=$$?; \
	awk -F '\t' '{ tests[$$1]++; names[$$1] = names[$$1] " " $$2 } \
		END { for (reason in tests) print "\n" reason ". Skipped " tests[reason] ":" names[reason] }' bin/skipped | fold -s -w 120; \
	exit $$status

test-plugin:
	go test -p 3 $(TESTFLAGS) ./payoffer/ledger ./payoffer ./payoffer/observe/bitcoin ./payoffer/service ./payoffer/x402 ./...

test-binary:
	cd caddy/e2e && CGO_ENABLED=0 go test -count=1 -timeout 30m -p 8 -parallel 4 ./browser ./wallet ./docs ./gate/pay ./demo ./histories ./attack \
		./settlement ./gate ./instances ./buyer ./crash ./soak ./standards \
		$$(go list ./... | grep -v /bench)

bench: ## Compare the built binary with other servers, and print the ratios.
	cd caddy/e2e && go test -count=1 -timeout 3h -run '^$$' -bench '^BenchmarkRatios$$' -benchtime 1x ./bench -args -rows '$(ROWS)' -rounds $(ROUNDS)
