package web

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/skip2/go-qrcode"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// startRetry is the Retry-After until the service has started.
const startRetry = 2 * time.Second

const (
	macSize      = 16 // bytes
	modulePixels = 8
)

// qrPath is the path of the QR image of a payment URI: /v1/qr/<rail>/<base64url of the
// URI>.<base64url of the MAC>.png. Every instance with the key can draw it.
func qrPath(key []byte, rail, uri string) string {
	return offer.PathQR + "/" + rail + "/" + base64.RawURLEncoding.EncodeToString([]byte(uri)) + "." +
		base64.RawURLEncoding.EncodeToString(qrMAC(key, rail, uri)) + ".png"
}

// qrMAC authenticates a path, so that the service draws only its own payment addresses.
func qrMAC(key []byte, rail, uri string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(rail))
	mac.Write([]byte{0})
	mac.Write([]byte(uri))
	return mac.Sum(nil)[:macSize]
}

// parseQRPath returns the rail and the URI of a path that was made with the key. Whole paths are compared in
// constant time: a path has one spelling.
func parseQRPath(key []byte, path string) (rail, uri string, ok bool) {
	rail, name, _ := strings.Cut(strings.TrimPrefix(path, offer.PathQR+"/"), "/")
	encoded, _, _ := strings.Cut(name, ".")
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	return rail, string(decoded), err == nil && hmac.Equal([]byte(path), []byte(qrPath(key, rail, string(decoded))))
}

// qrImage is GET /v1/qr/…: an image with 15 % error correction (level M) and the quiet zone
// of ISO/IEC 18004.
func (s *Server) qrImage(r *http.Request) *response {
	path := r.URL.Path
	if drawn, ok := s.images.find(path); ok { // only authentic paths are cached
		return drawn
	}
	key := s.QRKey()
	if key == nil {
		return s.notStarted()
	}
	rail, uri, ok := parseQRPath(key, path)
	if _, configured := s.Offer.Rail(rail); !ok || !configured {
		return s.refuse(problemNotFound, "qr", offer.With{"url": s.Offer.URL(offer.PathMethods)})
	}
	return s.images.get(path, func() *response {
		image, err := qrcode.Encode(uri, qrcode.Medium, -modulePixels)
		if err != nil {
			// CheckImages checked every link; only a later price can make one too long.
			s.Logger.Error("QR code cannot be drawn", "rail", rail, "error", err, "hint", "use a shorter payment address for this method")
			return s.refuse(problemNotFound, "long", nil)
		}
		return s.render(http.StatusOK, typePNG, cacheForever, bytes.Clone(image))
	})
}

// qrSVG is a QR code as an SVG path in a square of side units; empty if the text is too long.
func qrSVG(text string) (path string, side int) {
	code, err := qrcode.New(text, qrcode.Low)
	if err != nil {
		return "", 0
	}
	var out strings.Builder
	bitmap := code.Bitmap()
	for y, row := range bitmap {
		for x, dark := range row {
			if dark {
				fmt.Fprintf(&out, "M%d %dh1v1h-1z", x, y)
			}
		}
	}
	return out.String(), len(bitmap)
}

// surelyFits is a number of bytes that always fits: a QR code has room for 2,331 at this
// error correction (ISO/IEC 18004, table 7).
const surelyFits = 2_000

// CheckImages checks that every rail's link fits into a QR code.
func CheckImages(o *offer.Offer) error {
	for _, m := range o.Methods(offer.Live{}) {
		if !m.Available || len(m.Link()) <= surelyFits {
			continue
		}
		if _, err := qrcode.New(m.Link(), qrcode.Medium); err != nil {
			return fmt.Errorf("the payment address of the rail %q has %d bytes and does not fit into a QR code; use a shorter address: %w", m.Rail, len(m.Link()), err)
		}
	}
	return nil
}

// notStarted is the response until the service has started.
func (re responder) notStarted() *response {
	return re.refuse(problemNotStarted, "detail", nil, retryAfter(startRetry))
}
