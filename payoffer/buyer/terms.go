package buyer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	schemeExact = "exact"
	// decimals of USDC, on every known network.
	decimals = 6
	// maxValidity bounds how long a signed authorization can be spent: what is not
	// final is in doubt until it ends.
	maxValidity = 10 * time.Minute
)

// Terms are one way to pay that was checked: who gets how much of what, and where.
type Terms struct {
	Network offer.Network
	// PayTo is the payee in EIP-55 form.
	PayTo string
	// Atomic is the amount in atomic units of USDC.
	Atomic int64
	// Validity is how long the payment may be spent.
	Validity time.Duration
	// Flow is "upfront" for a seller that charges before it answers, and
	// "authorization" for one that checks, answers and charges then.
	Flow string

	accepted json.RawMessage
}

// Amount is the price in USDC as a decimal number, which is that in US dollars.
func (t Terms) Amount() string { return offer.FormatDecimal(t.Atomic, decimals) }

// requirementJSON is a PaymentRequirements of version 2.
type requirementJSON struct {
	Scheme            string `json:"scheme"`
	Network           string `json:"network"`
	Amount            string `json:"amount"`
	Asset             string `json:"asset"`
	PayTo             string `json:"payTo"`
	MaxTimeoutSeconds int64  `json:"maxTimeoutSeconds"`
	Extra             struct {
		Name           string `json:"name"`
		Version        string `json:"version"`
		Decimals       *int   `json:"decimals"`
		TransferMethod string `json:"assetTransferMethod"`
		Flow           string `json:"paymentFlow"`
	} `json:"extra"`
}

// choose takes the first way to pay that this client can and may take. The error
// says of each why not.
func (q *Quote) choose(network string, limit int64) (Terms, error) {
	var reasons []string
	for _, accepted := range q.accepts {
		terms, err := checkTerms(accepted, network, limit)
		if err == nil {
			return terms, nil
		}
		reasons = append(reasons, err.Error())
	}
	if len(reasons) == 1 {
		return Terms{}, errors.New("not paid: " + reasons[0])
	}
	return Terms{}, fmt.Errorf("not paid: none of the %d ways to pay can be taken:\n  %s", len(reasons), strings.Join(reasons, "\n  "))
}

// checkTerms compares one way to pay with what is known here. Token, name, version
// and decimals are taken from the own table of networks.
func checkTerms(accepted json.RawMessage, network string, limit int64) (Terms, error) {
	var in requirementJSON
	if strict.Unmarshal(accepted, &in) != nil || len(accepted) > maxEcho {
		return Terms{}, errors.New("a way to pay has the wrong shape")
	}
	known, err := offer.LookupNetwork(in.Network)
	if err != nil || known.CAIP2() != in.Network {
		return Terms{}, fmt.Errorf("the network %s is not known here", quoted(in.Network))
	}
	if network != "" && network != known.Name && network != known.CAIP2() {
		return Terms{}, fmt.Errorf("it is paid on %s, and --network is %s", known.Title, network)
	}
	if err := in.checkToken(known); err != nil {
		return Terms{}, err
	}
	amount, err := strconv.ParseInt(in.Amount, 10, 64)
	if err != nil || amount <= 0 || strconv.FormatInt(amount, 10) != in.Amount {
		return Terms{}, fmt.Errorf("the amount %s is not a number of atomic units", quoted(in.Amount))
	}
	if amount > limit {
		return Terms{}, fmt.Errorf("it costs %s USD, which is more than --max %s", offer.FormatDecimal(amount, decimals), offer.FormatDecimal(limit, decimals))
	}
	if in.MaxTimeoutSeconds <= 0 {
		return Terms{}, errors.New("it does not say for how long a payment must be valid (maxTimeoutSeconds)")
	}
	// This also refuses the contract of a token as payee.
	rail, err := offer.NewUSDC("", known, in.PayTo, 0)
	if err != nil {
		return Terms{}, fmt.Errorf("the payee %s cannot be paid: %s", quoted(in.PayTo), Plain(err.Error()))
	}
	t := Terms{Network: known, PayTo: rail.PayTo, Atomic: amount, Flow: in.Extra.Flow, accepted: accepted}
	t.Validity = maxValidity
	if in.MaxTimeoutSeconds < int64(maxValidity/time.Second) {
		t.Validity = time.Duration(in.MaxTimeoutSeconds) * time.Second
	}
	switch t.Flow {
	case "":
		t.Flow = "authorization"
	case "authorization", "upfront":
	default:
		return Terms{}, fmt.Errorf("its payment flow is %s, which is not known here", quoted(t.Flow))
	}
	return t, nil
}

// checkToken refuses every token but the network's USDC, and another description
// of that.
func (in *requirementJSON) checkToken(known offer.Network) error {
	switch extra := in.Extra; {
	case in.Scheme != schemeExact:
		return fmt.Errorf("the scheme %s is not known here", quoted(in.Scheme))
	case !strings.EqualFold(in.Asset, known.USDC):
		return fmt.Errorf("it asks for the token %s on %s, which is not USDC (%s)", quoted(in.Asset), known.Title, known.USDC)
	case extra.Name != known.TokenName || extra.Version != known.TokenVersion:
		return fmt.Errorf("it calls the token %s version %s, and USDC on %s is %q version %q; a signature for another name moves nothing",
			quoted(extra.Name), quoted(extra.Version), known.Title, known.TokenName, known.TokenVersion)
	case extra.Decimals != nil && *extra.Decimals != decimals:
		return fmt.Errorf("it says that USDC has %d decimals, and it has %d", *extra.Decimals, decimals)
	case extra.TransferMethod != "" && extra.TransferMethod != "eip3009":
		return fmt.Errorf("it is paid by the method %s, and this command pays by eip3009 alone", quoted(extra.TransferMethod))
	}
	return nil
}
