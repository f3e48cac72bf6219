package ledger

import (
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Payment is a receipt, or what is known of a payment by an authorization without one.
type Payment struct {
	Receipt
	Intent *Intent // that of the authorization, or nil
}

// AuthorizationName is the Receipt.Name of the payment by an authorization.
func AuthorizationName(payer, nonce string) string { return accounting.AuthorizationName(payer, nonce) }

// Payment reads the payment of an offer by its account and its Receipt.Name. A dropped receipt
// counts only if there is no intent that can still be, or was, paid.
func (l *Ledger) Payment(ctx context.Context, offerID, account, name string) (p Payment, found bool, err error) {
	externalID, payer, nonce := accounting.ParseName(name)
	if externalID != "" {
		p.Receipt, found, err = l.Receipt(ctx, offerID, account, externalID)
		return p, found, err
	}
	p.Receipt, found, err = l.lastAuthorizationReceipt(ctx, account, payer, nonce)
	if err != nil || found && p.Offer != offerID {
		return Payment{}, false, err
	}
	network, _, err := offer.ParseUSDCAccount(account)
	if err != nil {
		return p, found, nil // only USDC has authorizations
	}
	key := IntentKey{Network: network.CAIP2(), Asset: network.USDC, From: payer, Nonce: nonce}
	intent, known, err := l.Intent(ctx, key)
	if err != nil || !known || intent.Offer != offerID || intent.Account != account {
		return p, found, err
	}
	p.Intent = &intent
	if !found || p.Status == StatusDropped && intent.State != IntentRefused {
		p.Receipt = intent.Receipt()
	}
	return p, true, nil
}

// Receipt is what is known of the payment without a receipt.
func (i Intent) Receipt() Receipt {
	r := Receipt{
		Offer: i.Offer, Account: i.Account, Rail: i.Rail, Via: "x402", Asset: i.Asset, Amount: i.Amount, USDCents: i.USDCents,
		ValueBasis: BasisFace, Payer: i.From, Nonce: i.Nonce, Own: i.Own, Testnet: i.Testnet, OccurredAt: i.CreatedAt,
		UpdatedAt: i.UpdatedAt, Status: StatusSettling,
	}
	switch i.State {
	case IntentSettled:
		r.Status, r.EvidenceLevel, r.Transaction = StatusClaimed, EvidenceLevel(i.Evidence), i.Transaction
	case IntentRefused:
		r.Status = StatusDropped
	}
	return r
}
