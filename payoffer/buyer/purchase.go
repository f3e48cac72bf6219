package buyer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/filelock"
)

// State is what is known of a payment.
type State string

const (
	// Open: signed, and perhaps sent and charged. The same bytes are sent again.
	Open State = "open"
	// Refused: the seller says no, and whoever has the bytes may still spend them.
	// They are sent again as Open ones are.
	Refused State = "refused"
	// Void: refused, and too late to be spent. Whether it was spent before, the chain
	// alone tells.
	Void State = "void"
	// Paid: the seller has taken it.
	Paid State = "paid"
)

// Decided reports whether the same bytes need not be sent any more.
func (s State) Decided() bool { return s == Paid || s == Void }

// Payment is one signed authorization and what became of it.
type Payment struct {
	State State `json:"state"`
	// Reason is why it is not paid, in a stranger's words.
	Reason string `json:"reason,omitempty"`
	Method string `json:"method"`
	URL    string `json:"url"`
	Payer  string `json:"payer"`
	PayTo  string `json:"payTo"`
	// Network is a CAIP-2 id, Asset the token, and Atomic the amount in its atomic
	// units.
	Network string `json:"network"`
	Asset   string `json:"asset"`
	Atomic  int64  `json:"amountAtomic"`
	Nonce   string `json:"nonce"`
	// ValidBefore is when the authorization ends.
	ValidBefore time.Time `json:"validBefore"`
	SignedAt    time.Time `json:"signedAt"`
	// Header is the value of PAYMENT-SIGNATURE, until it is decided: whoever reads it
	// can spend it.
	Header string `json:"paymentSignature,omitempty"`

	// What the seller said when it was paid: the value of PAYMENT-RESPONSE, the
	// status, and the name of the file with what was bought.
	Response string `json:"paymentResponse,omitempty"`
	Status   int    `json:"status,omitempty"`
	Answer   string `json:"answer,omitempty"`
	// Cut says why Answer is not whole.
	Cut string `json:"answerCut,omitempty"`
}

// voidAfter is how long after its end an authorization may still be in time by
// the clock of the chain, for ours may be ahead.
const voidAfter = 10 * time.Minute

// VoidAt is when nobody can spend the authorization any more, whosever clock is
// right.
func (p *Payment) VoidAt() time.Time { return p.ValidBefore.Add(voidAfter) }

// Spendable reports whether the authorization may still be in time.
func (p *Payment) Spendable() bool { return time.Now().Before(p.VoidAt()) }

// Purchase is a folder with what one payer has paid for one target: a file for
// each payment, of which the last one counts. While it is open no other process
// has it.
type Purchase struct {
	// Payment is the last one, nil for none.
	*Payment
	folder string
	number int // of the last payment
	lock   *os.File
}

// ErrBusy is of a purchase that another process works on.
var ErrBusy = errors.New("another run of this command is at work on the same purchase; wait until it has ended")

// OpenPurchase opens that of a payer and a target below a folder. Error: ErrBusy.
func OpenPurchase(state string, t Target, payer string) (*Purchase, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256([]byte(t.Method + "\n" + t.URL() + "\n" + strings.ToLower(payer)))
	p := &Purchase{folder: filepath.Join(state, hex.EncodeToString(id[:16]))}
	if err := makeFolder(p.folder); err != nil {
		return nil, fmt.Errorf("the folder of the payments: %w", err)
	}
	if p.lock, err = os.OpenFile(filepath.Join(p.folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err = filelock.Try(p.lock); errors.Is(err, filelock.ErrLocked) {
		err = ErrBusy
	}
	if err == nil {
		err = p.load()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Close lets others open the purchase.
func (p *Purchase) Close() error { return filelock.Close(p.lock) }

// load finds the last payment. One that cannot be read is not passed over: it may
// be money.
func (p *Purchase) load() error {
	entries, err := os.ReadDir(p.folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		number, found := strings.CutSuffix(entry.Name(), ".json")
		if n, err := strconv.Atoi(number); found && err == nil {
			p.number = max(p.number, n)
		}
	}
	if p.number == 0 {
		return nil
	}
	p.Payment = new(Payment)
	if err := p.read(); err != nil {
		return fmt.Errorf("%s cannot be read (%w): it holds a signed payment that may have been charged; put it right or away by hand", p.file(), err)
	}
	return nil
}

// read reads the last payment, which must have all that it was kept with.
func (p *Purchase) read() error {
	if info, err := os.Lstat(p.file()); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("it is no file of its own"))
	}
	text, err := os.ReadFile(p.file())
	if err == nil {
		err = json.Unmarshal(text, p.Payment)
	}
	if err == nil && (p.State == "" || p.Nonce == "" || p.ValidBefore.IsZero() || p.Header == "" && !p.State.Decided()) {
		err = errors.New("something of it is missing")
	}
	return err
}

// file is that of the last payment.
func (p *Purchase) file() string {
	return filepath.Join(p.folder, strconv.Itoa(p.number)+".json")
}

// begin keeps a payment that was just signed, before it is sent.
func (p *Purchase) begin(payment *Payment) error {
	p.number++
	p.Payment = payment
	return p.keep()
}

// keep writes the last payment, durably.
func (p *Purchase) keep() error {
	text, err := json.MarshalIndent(p.Payment, "", "  ")
	if err == nil {
		err = writeDurably(p.file(), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("the payment cannot be kept: %w", err)
	}
	return nil
}

// keepAnswer writes what was bought beside its payment.
func (p *Purchase) keepAnswer(body []byte) error {
	p.Answer = strings.TrimSuffix(p.file(), ".json") + ".answer"
	if err := writeDurably(p.Answer, body); err != nil {
		return fmt.Errorf("what was bought cannot be kept: %w", err)
	}
	return nil
}

// makeFolder makes a folder for its owner alone, so that it outlasts a power
// failure.
func makeFolder(name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := makeFolder(filepath.Dir(name)); err != nil {
		return err
	}
	if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(filepath.Dir(name))
}

// writeDurably replaces a file as a whole. When it returns, its content outlasts a
// power failure.
func writeDurably(name string, content []byte) error {
	next := name + ".next"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, name); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}
