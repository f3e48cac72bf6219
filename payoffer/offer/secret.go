package offer

import (
	"errors"
	"regexp"
)

var (
	// walletKey matches 64 hexadecimal digits that are not part of a URL's path, where
	// they are a hash, and an extended private key (BIP-32).
	walletKey = regexp.MustCompile(`(?:^|[\s"'(,;]|://)(?:0[xX])?[0-9a-fA-F]{64}(?:$|\W)|(?:^|\W)[A-Za-z]prv[0-9A-Za-z]{20}`)
	// serviceKey matches a secret API key or a webhook signing secret of Stripe.
	serviceKey = regexp.MustCompile(`(?:^|[^A-Za-z0-9])(?:[sr]k_(?:live|test)|whsec)_[0-9A-Za-z]{6}`)
)

// CheckNoSecret refuses a text that contains a private key, an API key or a signing
// secret. The error does not repeat the text.
func CheckNoSecret(text string) error {
	switch {
	case walletKey.MatchString(text):
		return errWalletKey
	case serviceKey.MatchString(text):
		return errors.New("this looks like a secret of a payment service, and this option is published; write it at its own option as {env.NAME}, " +
			"and revoke it if this file was shown to others")
	}
	return nil
}

var errWalletKey = errors.New("this looks like a private key, which no option accepts, because everyone who reads it can take the money; " +
	"move that money to a new wallet now, and remove the key here and from the shell's history")
