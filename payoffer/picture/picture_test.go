package picture

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func makeOffer(name string, amount offer.USD) *offer.Offer {
	return &offer.Offer{Terms: offer.Terms{Name: name, Amount: amount, BaseURL: "https://pay.example.org", Accent: offer.DefaultAccent}}
}

// hostile are names that must not break a drawing, and whether the font can show them.
var hostile = map[string]bool{
	`</title></svg><script>alert(1)</script>" onload="x`: true, strings.Repeat("W", 80): true, strings.Repeat(`<b>"&long `, 2_000): true,
	"{{.Width}} %s ]]> &amp; <!--": true, "Łódź · Straße · Ποσό · Цена": true, "שלום לתומכים": false, "دعم المشروع": false,
	"潮池": false, "Tidepool 🌊": false, "evil\u202egpj.exe": false, "cafe\u0301": false, "a\x00\x1b\xff": false,
}

func decode(t *testing.T, data []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	return img
}

func TestPreviewShowsOffer(t *testing.T) {
	o := makeOffer("Sponsorship of Tidepool", 42_00)
	before := Preview(o, nil)
	require.Equal(t, image.Rect(0, 0, 1200, 630), decode(t, before).Bounds())
	require.Equal(t, before, Preview(o, nil))
	for what, change := range map[string]func(*offer.Offer){
		"price": func(o *offer.Offer) { o.Amount = 43_00 }, "name": func(o *offer.Offer) { o.Name += "s" },
		"host": func(o *offer.Offer) { o.BaseURL += ":8443" }, "seller": func(o *offer.Offer) { o.Operator = "Tidepool Ltd" }, "accent": func(o *offer.Offer) { o.Accent = "#6b21a8" },
		"description": func(o *offer.Offer) { o.Description = "A year of work." }, "methods": func(o *offer.Offer) { o.Rails = []offer.Rail{new(offer.Bitcoin)} },
	} {
		changed := *o
		change(&changed)
		require.NotEqual(t, before, Preview(&changed, nil), what)
	}
}

func TestPreviewActionNamesMethods(t *testing.T) {
	for want, rails := range map[string][]offer.Rail{
		"Pay by card":                 {new(offer.Card), new(offer.Storefront)},
		"Pay by card or bank":         {new(offer.Card), new(offer.BankTransfer)},
		"Pay by card, crypto or bank": {new(offer.Card), new(offer.USDC), new(offer.Bitcoin), new(offer.BankTransfer)},
	} {
		o := makeOffer("Tidepool", 42_00)
		o.Rails = rails
		require.Equal(t, want, action(o))
	}
}

func TestPreviewOmitsUnprintableName(t *testing.T) {
	without := Preview(makeOffer("潮", 42_00), nil)
	for name, shown := range hostile {
		require.Equal(t, shown, !bytes.Equal(without, Preview(makeOffer(name, 42_00), nil)), "%.80q", name)
	}
}

// What is drawn keeps the margins at both sides, whatever the operator wrote.
func TestPreviewMargins(t *testing.T) {
	for name, shown := range hostile {
		if !shown && name != "潮池" {
			continue // they look alike
		}
		o := makeOffer(name, 999_999_99)
		o.BaseURL = "https://" + strings.Repeat(strings.Repeat("h", 62)+".", 4) + "h:65535"
		img := decode(t, Preview(o, nil))
		for _, side := range []image.Rectangle{image.Rect(0, 0, 88, 600), image.Rect(1112, 0, 1200, 600), image.Rect(0, 0, 1200, 72), image.Rect(0, 570, 1200, 610)} {
			for y := side.Min.Y; y < side.Max.Y; y++ {
				for x := side.Min.X; x < side.Max.X; x++ {
					if img.At(x, y) != img.At(0, 0) {
						require.FailNow(t, "something is in the margin", "%.80q at %d, %d", name, x, y)
					}
				}
			}
		}
	}
}

func TestLongNameWrapsWithEllipsis(t *testing.T) {
	s := style{font: regular, size: 46}
	for name, want := range map[string][]string{
		"Sponsorship": {"Sponsorship"},
		"A year of maintenance and support for the open-source sync engine Tidepool": {
			"A year of maintenance and support for the", "open-source sync engine Tidepool",
		},
		"A year of maintenance and support for the open-source sync engine Tidepool and its friends": {
			"A year of maintenance and support for the", "open-source sync engine Tidepool and its…",
		},
		strings.Repeat("W", 24):             {strings.Repeat("W", 23), "W"},
		strings.Repeat("W", 80):             {strings.Repeat("W", 23), strings.Repeat("W", 22) + "…"},
		"Éric " + strings.Repeat("É", 2000): {"Éric", strings.Repeat("É", 31) + "…"},
	} {
		lines := s.wrap(1008, name)
		require.Equal(t, want, lines, name)
		for _, line := range lines {
			require.LessOrEqual(t, s.width(line), float32(1008))
		}
	}
}

// Prices such as $1,000 have zeros without a stroke through them.
func TestZeroHasNoSlash(t *testing.T) {
	for _, s := range []style{{font: regular}, {font: bold}} {
		name, err := s.font.GlyphName(nil, s.glyph('0'))
		require.NoError(t, err)
		require.Equal(t, "zero.empty", name)
	}
}

func TestIconsUseAccent(t *testing.T) {
	o := makeOffer("Example", 42_00)
	o.Accent = "#6b21a8"
	touch := decode(t, TouchIcon(o))
	require.Equal(t, image.Rect(0, 0, 180, 180), touch.Bounds())
	for _, corner := range []image.Point{{}, {179, 0}, {0, 179}, {179, 179}} {
		require.Equal(t, o.Accent.RGBA(), color.RGBAModel.Convert(touch.At(corner.X, corner.Y)), "a phone rounds the corners")
	}

	ico := Favicon(o)
	var head struct {
		Reserved, Type, Images      uint16
		Width, Height, Colors, Zero uint8
		Planes, BitsPerPixel        uint16
		Size, Offset                uint32
	}
	require.NoError(t, binary.Read(bytes.NewReader(ico), binary.LittleEndian, &head))
	require.Equal(t, []uint16{0, 1, 1, 1, 32}, []uint16{head.Reserved, head.Type, head.Images, head.Planes, head.BitsPerPixel})
	require.Len(t, ico, int(head.Offset+head.Size))
	img := decode(t, ico[head.Offset:])
	require.Equal(t, image.Rect(0, 0, int(head.Width), int(head.Height)), img.Bounds())
	for _, corner := range []image.Point{{}, {47, 0}, {0, 47}, {47, 47}} {
		_, _, _, alpha := img.At(corner.X, corner.Y).RGBA()
		require.Zero(t, alpha)
	}
	require.Equal(t, o.Accent.RGBA(), color.RGBAModel.Convert(img.At(24, 3)))

	require.Contains(t, string(Icon(o)), `fill="#6b21a8"`)
	parse(t, Icon(o))
}

// parsed is what an SVG image has: its text by element, and the value of each attribute.
type parsed struct {
	text       map[string]string
	attributes map[string]string
}

func parse(t *testing.T, svg []byte) parsed {
	t.Helper()
	p, element := parsed{map[string]string{}, map[string]string{}}, ""
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return p
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			element = token.Name.Local
			require.Contains(t, []string{"svg", "title", "rect", "path", "text", "g", "clipPath", "linearGradient", "stop"}, element)
			for _, a := range token.Attr {
				require.NotRegexp(t, `(?i)^(on|style|href|class)`, a.Name.Local)
				p.attributes[element+" "+a.Name.Local] = a.Value
			}
		case xml.CharData:
			p.text[element] = strings.TrimSpace(p.text[element] + string(token))
		}
	}
}

func TestButtonAndBadgeShowPrice(t *testing.T) {
	for amount, price := range map[offer.USD]string{42_00: "$42", 9_50: "$9.50", 1_000_00: "$1,000", 1: "$0.01", 999_999_99: "$999,999.99"} {
		o := makeOffer("Tidepool", amount)
		button, badge := parse(t, Button(o)), parse(t, Badge(o))
		require.Equal(t, "Pay "+price, button.text["text"])
		require.True(t, strings.HasSuffix(badge.text["text"], price), "in the shadow and on it")
		for _, drawn := range []parsed{button, badge} {
			require.Equal(t, "Pay "+price+": Tidepool", drawn.text["title"])
			require.Equal(t, "Pay "+price+": Tidepool", drawn.attributes["svg aria-label"])
			require.Equal(t, "img", drawn.attributes["svg role"])
			require.NotEmpty(t, drawn.attributes["text textLength"])
		}
	}
	require.NotEqual(t, parse(t, Button(makeOffer("", 1_00))).attributes["svg width"], parse(t, Button(makeOffer("", 1_000_00))).attributes["svg width"])
}

func TestHostileNameKeepsButtonAndBadge(t *testing.T) {
	for name := range hostile {
		for _, draw := range []func(*offer.Offer) []byte{Button, Badge} {
			drawn, plain := parse(t, draw(makeOffer(name, 42_00))), parse(t, draw(makeOffer("Tidepool", 42_00)))
			shown := strings.NewReplacer("\x00", "\ufffd", "\x1b", "\ufffd", "\xff", "\ufffd").Replace(name)
			require.Equal(t, strings.TrimSpace("Pay $42: "+shown), drawn.text["title"])
			plain.text["title"], plain.attributes["svg aria-label"] = drawn.text["title"], drawn.attributes["svg aria-label"]
			require.Equal(t, plain, drawn)
		}
	}
}

// A logo stands where the initial is, in its form and at most as high and four times as wide.
func TestPreviewShowsLogo(t *testing.T) {
	o := makeOffer("Example", 42_00)
	red := color.RGBA{0xff, 0, 0, 0xff}
	for size, want := range map[image.Point]image.Point{{100, 100}: {72, 72}, {400, 100}: {288, 72}, {100, 300}: {24, 72}, {900, 100}: {288, 32}, {9, 3000}: {1, 72}} {
		drawn := image.NewRGBA(image.Rectangle{Max: size})
		draw.Draw(drawn, drawn.Rect, image.NewUniform(red), image.Point{}, draw.Src)
		for name, file := range map[string][]byte{"png": encode(drawn), "gif": encodeGIF(t, drawn)} {
			logo := Logo(file)
			require.NotNil(t, logo, name)
			var reds image.Rectangle
			img := decode(t, Preview(o, logo))
			for x := range img.Bounds().Dx() {
				for y := range img.Bounds().Dy() {
					if r, g, b, _ := img.At(x, y).RGBA(); r > 0xf000 && g+b < 0x2000 {
						reds = reds.Union(image.Rect(x, y, x+1, y+1))
					}
				}
			}
			require.InDelta(t, want.X, reds.Dx(), 1, "%v %s", size, name)
			require.InDelta(t, want.Y, reds.Dy(), 1, "%v %s", size, name)
			require.Equal(t, 96, reds.Min.X)
		}
	}
	require.Equal(t, Preview(o, nil), Preview(o, Logo([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))), "another format")
	require.Nil(t, Logo(encode(image.NewGray(image.Rect(0, 0, 5000, 1000)))), "too large")
	require.Nil(t, Logo(encode(image.NewGray(image.Rect(0, 0, 50, 50)))[:60]), "damaged")
}

func encodeGIF(t *testing.T, img image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, gif.Encode(&file, img, nil))
	return file.Bytes()
}
