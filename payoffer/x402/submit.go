package x402

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// proofWait is how long a payer waits until our node shows the transaction; it is read every proofPoll.
	proofWait = 10 * time.Second
	proofPoll = 250 * time.Millisecond
	// While the payer waits, a settlement is recorded with up to recordRetries; the pauses double.
	recordRetries = 4
	recordFirst   = 100 * time.Millisecond
	recordTimeout = 10 * time.Second
	// recordLaterFirst and recordLaterMost bound the pauses between retries in the background.
	recordLaterFirst = 5 * time.Second
	recordLaterMost  = time.Minute
)

// leaseFor is how long one attempt may work on an intent: two calls of each facilitator, the wait
// for a slot, the proof, and time to record; at most ledger.LongestLease.
func leaseFor(rail *Rail) time.Duration {
	lease := proofWait + 10*time.Second
	var longest time.Duration
	for _, f := range rail.Facilitators {
		lease += 2 * f.config.Timeout
		longest = max(longest, f.config.Timeout)
	}
	return min(lease+longest, ledger.LongestLease)
}

// Hints to the operator, in the log.
const (
	hintVerify = "the next facilitator is tried; without one, the payer is asked to send the payment again"
	hintOpen   = "it is resolved from the chain or by a retry; until then, do not deliver or ask for a new payment"
	hintLedger = "check the disk or the database of the ledger; see docs/reference/diagnostics"
	hintChain  = "check the rpc endpoints of this network; it is tried again"
)

// submit has a committed intent settled. The next facilitator is asked only if no byte reached the
// one before. If none was reached, sent is false and the intent is withdrawn.
func (s *Service) submit(ctx context.Context, rail *Rail, intent ledger.Intent, facilitators []*Facilitator) (stored ledger.Intent, sent bool) {
	for _, f := range facilitators {
		if f.Host() != intent.Facilitator {
			moved, err := s.Ledger.Apply(ctx, intent.IntentKey, ledger.IntentChange{Event: accounting.EventReassigned, Owner: s.Owner, Facilitator: f.Host()})
			if err != nil {
				return intent, true
			}
			intent = moved
		}
		stored, sent := s.settle(ctx, rail, intent, f)
		if sent {
			return stored, true
		}
	}
	stored, err := s.Ledger.Apply(ctx, intent.IntentKey, ledger.IntentChange{Event: accounting.EventNotSent, Owner: s.Owner})
	if err != nil {
		return intent, true
	}
	return stored, stored.State != accounting.IntentWithdrawn
}

// settle asks one facilitator to settle an intent, and records the outcome if it was sent.
func (s *Service) settle(ctx context.Context, rail *Rail, intent ledger.Intent, f *Facilitator) (stored ledger.Intent, sent bool) {
	r, err := f.settle(ctx, facilitatorRequest{intent.Version, intent.Payload, intent.Requirement})
	s.recordListing(ctx, f, r.listing)
	if failed, ok := errors.AsType[*callError](err); ok && failed.notSent {
		s.Logger.Warn("facilitator not reached for a settlement", "facilitator", f.Host(), "error", failed.code, "hint", hintVerify)
		return intent, false
	}
	return s.recordOutcome(ctx, rail, intent, f, r, err), true
}

// recordOutcome records a facilitator's reply. Only a success is a yes. Any other reply leaves the
// outcome unknown until the chain decides.
func (s *Service) recordOutcome(ctx context.Context, rail *Rail, intent ledger.Intent, f *Facilitator, r reply, err error) ledger.Intent {
	if err != nil {
		s.Logger.Warn("settlement outcome unknown", "facilitator", f.Host(), "error", err.Error(), "reply", r.rejection, "nonce", intent.Nonce, "hint", hintOpen)
		return s.keepOpen(ctx, intent, "", err.Error())
	}
	transaction := ""
	if wordForm.MatchString(r.Transaction) {
		transaction = strings.ToLower(r.Transaction)
		intent.Transaction = transaction
	}
	if !r.yes || transaction == "" || !isNetwork(r.Network, intent.Network) {
		s.Logger.Warn("settlement outcome unknown", "facilitator", f.Host(),
			"reason", r.reason, "message", r.message, "reply", r.rejection, "nonce", intent.Nonce, "hint", hintOpen)
		return s.keepOpen(ctx, intent, transaction, r.text())
	}
	if rail.Chain == nil {
		return s.recordClaim(ctx, rail, intent, r.Payer)
	}
	failpoint.Hit(failpoint.ProofBefore)
	transfer, found, err := s.awaitProof(ctx, rail.Chain, intent)
	failpoint.Hit(failpoint.ProofAfter)
	switch {
	case err != nil:
		s.Logger.Warn("settlement not verified on the chain yet", "network", intent.Network, "transaction", intent.Transaction, "hint", hintChain)
		return s.recordClaim(ctx, rail, intent, r.Payer)
	case found && !s.paysPrice(intent, transfer):
		return s.keepOpen(ctx, intent, transaction, reasonValue)
	case !found:
		s.Logger.Error("the chain does not show a reported settlement", "facilitator", f.Host(),
			"network", intent.Network, "transaction", intent.Transaction, "hint", hintOpen)
		return s.keepOpen(ctx, intent, transaction, "transaction_not_found")
	}
	return s.recordProof(ctx, rail, intent, transfer)
}

// awaitProof polls the chain for the intent's transaction. An error means that the chain could not be read even once.
func (s *Service) awaitProof(ctx context.Context, chain Chain, intent ledger.Intent) (ledger.Observation, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	for read := false; ; {
		transfer, found, err := chain.Prove(ctx, intent.IntentKey, intent.Transaction)
		switch {
		case err == nil && found:
			return transfer, true, nil
		case err == nil:
			read = true
		case !read:
			return ledger.Observation{}, false, err
		}
		select {
		case <-ctx.Done():
			return ledger.Observation{}, false, nil
		case <-time.After(proofPoll):
		}
	}
}

// paysPrice reports whether a Transfer has the intent's amount. A payer can use the nonce of the
// authorization for another one with a lower amount.
func (s *Service) paysPrice(i ledger.Intent, transfer ledger.Observation) bool {
	if transfer.Amount == i.Amount {
		return true
	}
	s.Logger.Warn("authorization used for another amount", "network", i.Network, "nonce", i.Nonce, "transaction", transfer.Transaction,
		"want", i.Amount, "got", transfer.Amount, "hint", "it does not pay this offer; look at the transaction")
	return false
}

// isNetwork reports whether a facilitator's name of a network, in either x402 version, is a CAIP-2 id.
func isNetwork(name, caip2 string) bool {
	return name == caip2 || name == networkIn(1, caip2)
}

// recordClaim records a facilitator's success without proof. payer is the one in the reply, if any.
// A report that cannot be true of this payment leaves it open. If there is a chain, the receipt is
// signed after the proof, because the claim may still be disproved.
func (s *Service) recordClaim(ctx context.Context, rail *Rail, i ledger.Intent, payer string) ledger.Intent {
	switch {
	case i.Transaction == zeroHash:
		return s.keepOpen(ctx, i, "", "transaction_zero")
	case payer != "" && !strings.EqualFold(payer, i.From):
		return s.keepOpen(ctx, i, i.Transaction, "transaction_of_another_payer")
	}
	claim := i
	claim.State, claim.Evidence = ledger.IntentSettled, ledger.EvidenceFacilitator
	if rail.Chain == nil {
		claim.Answer = s.newAnswer(claim)
	}
	store := func(ctx context.Context) error {
		_, err := s.Ledger.Apply(ctx, claim.IntentKey, ledger.IntentChange{Event: accounting.EventClaimed, Transaction: claim.Transaction, Answer: claim.Answer})
		return err
	}
	err := s.record(ctx, claim, store)
	switch {
	case errors.Is(err, ledger.ErrTransaction):
		return s.keepOpen(ctx, i, "", "transaction_of_another_payment")
	case err != nil:
		s.recordLater(ctx, claim, store)
	case rail.Chain != nil:
		s.Due() // it may be proven soon
	}
	return claim
}

const zeroHash = "0x0000000000000000000000000000000000000000000000000000000000000000"

// recordProof records the Transfer of an intent, and the intent as settled. Before a retry the chain is read again: a
// Transfer that has left the chain is not recorded. If the ledger does not take it, Resolve records it later.
func (s *Service) recordProof(ctx context.Context, rail *Rail, i ledger.Intent, transfer ledger.Observation) ledger.Intent {
	proven, gone := i, errors.New("the transaction has left the chain")
	proven.State, proven.Evidence, proven.Transaction = ledger.IntentSettled, ledger.EvidenceChain, transfer.Transaction
	proven.Answer = s.newAnswer(proven)
	retry := false
	err := s.record(ctx, proven, func(ctx context.Context) error {
		if retry {
			var found bool
			var err error
			if transfer, found, err = rail.Chain.Prove(ctx, i.IntentKey, proven.Transaction); err != nil {
				return err
			}
			if !found {
				return gone
			}
		}
		retry = true
		transfer.Via, transfer.Own = "x402", i.Own || transfer.Own
		transfer.Intent, transfer.Answer = &i.IntentKey, proven.Answer
		_, err := s.Ledger.Record(ctx, nil, transfer)
		return err
	})
	if errors.Is(err, gone) {
		return s.keepOpen(ctx, i, i.Transaction, "transaction_not_found")
	}
	return proven
}

// newAnswer is the SettleResponse to store for a settled intent, in version 2 terms. A stored one
// is never replaced, because the payer may have it.
func (s *Service) newAnswer(i ledger.Intent) []byte {
	if i.Answer != nil {
		return i.Answer
	}
	response := settleResponse(2, i)
	response.Extensions = s.receipt(i)
	return offer.JSON(response)
}

// storeAnswer stores the answer of an intent that the observer settled, so that every replay gets the same receipt.
func (s *Service) storeAnswer(ctx context.Context, i ledger.Intent) ledger.Intent {
	if i.State != ledger.IntentSettled || i.Evidence != ledger.EvidenceChain || i.Answer != nil {
		return i
	}
	stored, err := s.Ledger.Apply(ctx, i.IntentKey, ledger.IntentChange{Event: accounting.EventAnswered, Answer: s.newAnswer(i)})
	if err != nil {
		return i
	}
	return stored
}

// record stores a settlement with a few retries. The payer gets a 200 even if all fail.
func (s *Service) record(ctx context.Context, i ledger.Intent, store func(context.Context) error) error {
	failpoint.Hit(failpoint.RecordBefore)
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := store(ctx)
	for n := 0; err != nil && !errors.Is(err, ledger.ErrTransaction) && ctx.Err() == nil && n < recordRetries; n++ {
		time.Sleep(recordFirst << n)
		err = store(ctx)
	}
	if err == nil {
		failpoint.Hit(failpoint.RecordAfter)
		return nil
	}
	s.Logger.Error("settled payment not recorded; it stays open", "hint", hintLedger,
		"network", i.Network, "transaction", i.Transaction, "nonce", i.Nonce, "error", err.Error())
	return err
}

// recordLater retries in the background until the ledger takes a claim or is closed. Without a
// chain nothing else could show that the payment was settled.
func (s *Service) recordLater(ctx context.Context, i ledger.Intent, store func(context.Context) error) {
	if _, busy := s.recording.LoadOrStore(i.IntentKey, true); busy {
		return
	}
	ctx = context.WithoutCancel(ctx)
	end, _ := s.begin() // never fails, because the settlement holds the ledger
	go func() {
		defer end()
		defer s.recording.Delete(i.IntentKey)
		for wait := recordLaterFirst; ; wait = min(2*wait, recordLaterMost) {
			time.Sleep(wait) // ctx has no end
			err := store(ctx)
			switch {
			case err == nil:
				s.Logger.Info("settled payment recorded late", "network", i.Network, "transaction", i.Transaction, "nonce", i.Nonce)
				return
			case errors.Is(err, ledger.ErrNotOpen), errors.Is(err, ledger.ErrNoIntent), errors.Is(err, ledger.ErrIntentState), errors.Is(err, ledger.ErrTransaction):
				return
			}
		}
	}()
}

// refuse records that an intent was not paid and cannot be any more.
func (s *Service) refuse(ctx context.Context, i ledger.Intent, reason string) {
	if _, err := s.Ledger.Apply(ctx, i.IntentKey, ledger.IntentChange{Event: accounting.EventDead, Reason: reason}); err != nil {
		s.Logger.Warn("refusal of a payment not recorded", "nonce", i.Nonce, "error", err.Error(), "hint", hintLedger)
	}
}

// keepOpen stores what is known of an open intent and releases its lease. It returns the stored
// intent if an observer has decided it meanwhile.
func (s *Service) keepOpen(ctx context.Context, i ledger.Intent, transaction, reason string) ledger.Intent {
	_, err := s.Ledger.Apply(ctx, i.IntentKey, ledger.IntentChange{Event: accounting.EventUnknown, Owner: s.Owner, Transaction: transaction, Reason: reason})
	if errors.Is(err, ledger.ErrIntentState) {
		if stored, known, err := s.Ledger.Intent(ctx, i.IntentKey); err == nil && known {
			return stored
		}
	}
	if err != nil {
		s.Logger.Warn("state of an open payment not recorded", "nonce", i.Nonce, "error", err.Error(), "hint", hintLedger)
	}
	i.Reason = reason
	return i
}
