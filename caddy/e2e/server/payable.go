package server

// PayableCaddyfile is an offer on the simulated chain alone, which counts a transfer at once. In braces and capitals stand
// what a test fills in: DIR, PORT, PAYEE, FACILITATOR and RPC.
const PayableCaddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		site_url http://localhost:{PORT}
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc {RPC}
			confirm latest
		}
	}
	respond 404
}
`
