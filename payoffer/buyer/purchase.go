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
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/filelock"
)

// State is the state of a payment.
type State string

const (
	// Open: signed, and perhaps sent and charged. The same bytes are sent again.
	Open State = "open"
	// Refused: the seller refused it, and can still spend it. The same bytes are sent
	// again.
	Refused State = "refused"
	// Void: refused and expired. Only the chain shows whether it was spent before.
	Void State = "void"
	// Paid: the seller accepted it.
	Paid State = "paid"
	// Opened: nothing was signed, because an earlier payment opens the URL.
	Opened State = "opened"
)

// Decided reports whether the payment is not sent again.
func (s State) Decided() bool { return s == Paid || s == Void }

// Payment is one signed authorization and its outcome.
type Payment struct {
	State State `json:"state"`
	// Reason is why it is not paid, or why the answer is incomplete. It may quote the
	// seller.
	Reason string `json:"reason,omitempty"`
	Method string `json:"method"`
	URL    string `json:"url"`
	Payer  string `json:"payer"`
	PayTo  string `json:"payTo"`
	// Network is a CAIP-2 id, Asset the token, and Atomic the amount in atomic units.
	Network     string    `json:"network"`
	Asset       string    `json:"asset"`
	Atomic      int64     `json:"amountAtomic"`
	Nonce       string    `json:"nonce"`
	ValidBefore time.Time `json:"validBefore"`
	SignedAt    time.Time `json:"signedAt"`
	// Header is the value of PAYMENT-SIGNATURE until the payment is decided. It is a
	// secret: anyone who reads it can spend it.
	Header string `json:"paymentSignature,omitempty"`

	// The answer to a successful payment: the transaction, the receipt page and the signed
	// receipt (a JWS) of the seller, the status, and the file with the body.
	Transaction   string `json:"transaction,omitempty"`
	ReceiptURL    string `json:"receiptUrl,omitempty"`
	SignedReceipt string `json:"signedReceipt,omitempty"`
	Status        int    `json:"status,omitempty"`
	Answer        string `json:"answer,omitempty"`
	ContentType   string `json:"contentType,omitempty"`
	// Cookies are lines of Set-Cookie by the URL that set them. They are secrets: anyone who
	// reads them can open what was paid.
	Cookies map[string][]string `json:"cookiesByUrl,omitempty"`
	// AccessURL sets the cookies of what the payment opens elsewhere. It is a secret, too.
	AccessURL string `json:"accessUrl,omitempty"`
}

// voidAfter is how long an expired authorization counts as spendable, because this
// machine's clock may be ahead of the chain's.
const voidAfter = 10 * time.Minute

// Spendable reports whether the authorization may still be spent.
func (p *Payment) Spendable() bool { return time.Now().Before(p.ValidBefore.Add(voidAfter)) }

// Purchase is a folder with the payments of one payer for one URL by whatever method, one file each. Only the last payment is
// valid. A lock excludes the payer's other purchases at the same site, because one payment may open several URLs.
type Purchase struct {
	// Payment is the last one; nil if there is none.
	*Payment
	folder string
	payer  string
	number int    // of the last payment
	body   []byte // of the answer in this run
	lock   *os.File
}

// ErrBusy means that another process has opened a purchase of the payer at the site.
var ErrBusy = errors.New("another run of this command is paying the same site; wait until it ends")

// OpenPurchase opens the purchase of a payer and a target below a folder. Error: ErrBusy.
func OpenPurchase(state string, t Target, payer string) (*Purchase, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return nil, err
	}
	p := &Purchase{folder: filepath.Join(state, idOf(t.URL(), payer)), payer: payer}
	if err := makeFolder(p.folder); err != nil {
		return nil, fmt.Errorf("the folder for payments cannot be made: %w", err)
	}
	if p.lock, err = os.OpenFile(filepath.Join(state, idOf(site(t.url), payer)+".lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err = filelock.TryLock(p.lock); errors.Is(err, filelock.ErrLocked) {
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

// idOf is the name of what a payer has at an address.
func idOf(address, payer string) string {
	id := sha256.Sum256([]byte(address + "\n" + strings.ToLower(payer)))
	return hex.EncodeToString(id[:16])
}

// Content is the body of the answer to a paid purchase; it may be empty.
func (p *Purchase) Content() ([]byte, error) {
	if p.body != nil || p.Answer == "" {
		return p.body, nil
	}
	return os.ReadFile(p.Answer)
}

// Close lets others open the purchase.
func (p *Purchase) Close() error { return filelock.Close(p.lock) }

// load reads the last payment. It fails if the payment cannot be read, because it may
// have been charged.
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
	text, err := os.ReadFile(p.file())
	if err == nil {
		err = json.Unmarshal(text, p.Payment)
	}
	if err == nil && (p.State == "" || p.Nonce == "" || p.ValidBefore.IsZero() || p.Header == "" && !p.State.Decided()) {
		err = errors.New("a member is missing")
	}
	if err != nil {
		return fmt.Errorf("%s cannot be read (%w). It contains a signed payment that may have been charged: check the payer's account, then move the file away", p.file(), err)
	}
	return nil
}

// file is the file of the last payment.
func (p *Purchase) file() string { return filepath.Join(p.folder, strconv.Itoa(p.number)+".json") }

// store writes the last payment durably.
func (p *Purchase) store() error { return storePayment(p.file(), p.Payment) }

func storePayment(file string, p *Payment) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = writeDurably(file, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("the payment could not be stored: %w", err)
	}
	return nil
}

// makeFolder makes a folder that only its owner can read and that survives a power
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

// writeDurably replaces a file atomically. Its content survives a power failure.
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

// syncFolder writes the names in a folder to disk. Windows does that by itself.
func syncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
