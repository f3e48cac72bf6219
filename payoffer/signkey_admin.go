package payoffer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
)

// adminKeys is the endpoint of the signing keys.
const adminKeys = "/pay_offer/keys"

// keyRotation asks for a new signing key.
type keyRotation struct {
	// Offer is the id of the offer; empty where there is one alone.
	Offer string `json:"offer,omitempty"`
	// Revoke withdraws all former keys.
	Revoke bool `json:"revoke,omitempty"`
}

// rotatedKey is the answer.
type rotatedKey struct {
	Offer string `json:"offer"`
	// KeyID is the whole id, as in "did:web:pay.example.org#key".
	KeyID string `json:"key_id"`
	// SignsFrom is when it begins to sign (RFC 3339).
	SignsFrom string `json:"signs_from"`
	Revoked   bool   `json:"revoked"`
}

// rotateKey is POST /pay_offer/keys: it makes a new signing key.
func (a *AdminAPI) rotateKey(w http.ResponseWriter, r *http.Request) error {
	var body keyRotation
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	svc, err := namedService(body.Offer)
	if err != nil {
		return err
	}
	next, err := svc.signing.rotate(r.Context(), body.Revoke)
	if err != nil {
		return caddy.APIError{
			HTTPStatus: http.StatusServiceUnavailable, Err: err,
			Message: "Caddy's storage cannot be used now, the keys stay as they are; the log says why, try again",
		}
	}
	svc.publishKeys()
	answer := rotatedKey{
		Offer: svc.offer.ID, KeyID: svc.signing.did + "#" + next.ID,
		SignsFrom: next.From.UTC().Format(time.RFC3339), Revoked: body.Revoke,
	}
	a.logger.Info("the operator rotated the signing key", zap.String("offer", answer.Offer),
		zap.String("key_id", answer.KeyID), zap.String("signs_from", answer.SignsFrom), zap.Bool("revoked", answer.Revoked))
	return answerJSON(w, answer)
}

func rotateKeyCommand() *cobra.Command {
	cmd := adminCommand(&cobra.Command{
		Use:   "rotate-key [--offer <id>] [--revoke] [--address <interface>] [--config <path>] [--adapter <name>]",
		Short: "Makes a new key for signed offers and receipts",
		Long: `
Makes a new key for signed offers and receipts. It is published at once, and
signs ten minutes later, when every instance and every cache knows it. Former
keys stay published, so that receipts which they signed can still be checked.

With --revoke, for a key that was stolen, former keys are withdrawn and the new
one signs at once: no receipt that they signed can be checked any more.`,
	}, rotateKey)
	cmd.Flags().String("offer", "", "The id of the offer, if there are several")
	cmd.Flags().Bool("revoke", false, "Withdraw all former keys")
	return cmd
}

func rotateKey(fl caddycmd.Flags, out io.Writer) error {
	answer, err := adminRequest(fl, http.MethodPost, adminKeys, keyRotation{fl.String("offer"), fl.Bool("revoke")})
	if err != nil {
		return err
	}
	var key rotatedKey
	if err := json.Unmarshal(answer, &key); err != nil {
		return fmt.Errorf("the admin API's answer cannot be read: %w", err)
	}
	former := "former keys stay published"
	if key.Revoked {
		former = "all former keys are withdrawn"
	}
	_, err = fmt.Fprintf(out, "%s signs from %s; %s\n", printable(key.KeyID), printable(key.SignsFrom), former)
	return err
}
