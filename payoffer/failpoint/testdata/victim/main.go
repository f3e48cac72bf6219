// Command victim passes one point three times.
package main

import (
	"os"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
)

func main() {
	for _, pass := range []string{"1", "2", "3"} {
		failpoint.Hit(failpoint.PayDecoded)
		_, _ = os.Stdout.WriteString(pass)
	}
}
