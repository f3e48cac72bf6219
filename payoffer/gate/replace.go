package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"
)

// Replace decides on a code that arrives in a browser with a cookie. It returns the code to
// exchange. If the cookie is valid for another payment, it returns a question instead: the code
// of the link by which the payer agrees. The question is bound to the browser, so that a link
// on another site cannot contain it. Error: ErrUnreadable.
func (k *Keeper) Replace(ctx context.Context, cookie, code string) (exchange, question string, err error) {
	e, _ := k.openCookie(cookie) // of an invalid cookie, all is empty
	if found, err := k.open(useReplace, code, 2); err == nil {
		if found[1] != e.browser {
			return "", "", nil
		}
		return found[0], "", nil
	}
	if h, _, err := k.openCode(code); err != nil || h == e.Holder {
		return code, "", nil
	}
	switch _, err := k.ByCookie(ctx, cookie, k.longestAccess()); {
	case err == nil:
		return "", k.seal(useReplace, code, e.browser), nil
	case errors.Is(err, ErrUnreadable):
		return "", "", err
	}
	return code, "", nil
}

// openCode reads a code that is not too old. Each use of a pass is another browser.
func (k *Keeper) openCode(code string) (h Holder, browser string, err error) {
	found, err := k.open(useCode, code, 4)
	if err != nil {
		return h, "", err
	}
	h, browser = Holder{found[0], found[1]}, found[3]
	if _, pass := h.passID(); pass {
		return h, rand.Text(), nil
	}
	if at, err := strconv.ParseInt(found[2], 10, 64); err != nil || k.Now().Sub(time.Unix(at, 0)).Abs() > codeLifetime {
		return h, "", ErrClosed
	}
	return h, browser, nil
}
