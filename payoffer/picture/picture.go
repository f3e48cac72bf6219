// Package picture draws the images of an offer: its icon, the preview of shared links, and a
// button and a badge for other sites.
package picture

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/binary"
	"encoding/xml"
	"image"
	"image/color"
	"image/draw"
	_ "image/gif"  // logos
	_ "image/jpeg" // logos
	"image/png"
	"math"
	"slices"
	"strings"
	"text/template"

	scaled "golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
	_ "golang.org/x/image/webp" // logos

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

//go:embed *.svg
var files embed.FS

var drawings = template.Must(template.ParseFS(files, "*.svg"))

func render(file string, data map[string]any) []byte {
	var out bytes.Buffer
	if err := drawings.ExecuteTemplate(&out, file, data); err != nil {
		panic("picture: " + err.Error()) // tests render every file
	}
	return out.Bytes()
}

// Icon is the icon as SVG.
func Icon(o *offer.Offer) []byte {
	return render("icon.svg", map[string]any{"Accent": o.Accent, "On": o.Accent.On()})
}

// Button is an SVG button such as "Pay $42". It runs and loads nothing.
func Button(o *offer.Offer) []byte {
	return sign(o, "button.svg", "Pay "+price(o), style{font: bold, size: 17.5}, 52)
}

// Badge is an SVG badge in the form of shields.io. It runs and loads nothing.
func Badge(o *offer.Offer) []byte {
	return sign(o, "badge.svg", price(o), style{font: regular, size: 11.5}, 43)
}

// sign renders a drawing with a text, and with more pixels around it. The width of the text
// is that in a font a little larger than the drawing's, so that the drawing looks the same
// with narrow and wide fonts.
func sign(o *offer.Offer, file, text string, font style, around int) []byte {
	var title bytes.Buffer
	_ = xml.EscapeText(&title, []byte("Pay "+price(o)+": "+o.Name)) // a buffer accepts all
	width := int(font.width(text) + 1)
	return render(file, map[string]any{
		"Title": title.String(), "Accent": o.Accent, "On": o.Accent.On(), "Text": text, "TextWidth": width, "Width": width + around,
	})
}

// price is the price in English, such as "$1,000" or "$9.50".
func price(o *offer.Offer) string { return "$" + text.Languages[0].Number(o.Amount.String()) }

// TouchIcon is the icon as PNG in the size that phones ask for. They round its corners.
func TouchIcon(o *offer.Offer) []byte { return encode(icon(180, 0, o.Accent, "$")) }

// Favicon is the icon as an ICO file with one PNG, in the size that search engines ask for.
func Favicon(o *offer.Offer) []byte {
	const size = 48
	body := encode(icon(size, size/4, o.Accent, "$"))
	// One image of the size, without a palette, in one plane of 32 bits a pixel.
	file := []byte{0, 0, 1, 0, 1, 0, size, size, 0, 0, 1, 0, 32, 0}
	file = binary.LittleEndian.AppendUint32(file, uint32(len(body)))
	file = binary.LittleEndian.AppendUint32(file, uint32(len(file)+4)) // where it begins
	return append(file, body...)
}

// icon draws a character on a square with rounded corners.
func icon(size int, radius float64, accent offer.Color, character string) *image.RGBA {
	img, half := image.NewRGBA(image.Rect(0, 0, size, size)), float64(size)/2
	z := vector.NewRasterizer(size, size)
	z.MoveTo(float32(size), float32(half))
	for degrees := range 360 {
		sin, cos := math.Sincos(float64(degrees) * math.Pi / 180)
		x, y := math.Copysign(half-radius, cos)+radius*cos, math.Copysign(half-radius, sin)+radius*sin
		z.LineTo(float32(half+x), float32(half+y))
	}
	z.ClosePath()
	z.Draw(img, img.Rect, image.NewUniform(accent.RGBA()), image.Point{})
	const height, centerY = 0.72, 0.3615 // of the font in the icon, and of the sign in the font
	sign := style{font: bold, size: height * float32(size)}
	sign.write(img, accent.On().RGBA(), float32(half)-sign.width(character)/2, float32(half)+centerY*sign.size, character)
	return img
}

// Logo decodes a logo (PNG, JPEG, GIF or WebP); nil if it is in another format or too large.
func Logo(file []byte) image.Image {
	const most = 4 << 20 // pixels
	config, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil || config.Width <= 0 || config.Height <= 0 || config.Width > most/config.Height {
		return nil
	}
	logo, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil
	}
	return logo
}

// Preview is the image of a shared link as PNG: the seller with the logo or an initial, host, price, name,
// description if there is room for it, and a button. It leaves out a text that the font cannot show.
func Preview(o *offer.Offer, logo image.Image) []byte {
	const width, height, margin, top, band = 1200, 630, 96, 80, 16 // Open Graph recommends the size
	img, accent := image.NewRGBA(image.Rect(0, 0, width, height)), o.Accent.RGBA()
	ink, quiet := color.RGBA{0x18, 0x18, 0x1b, 0xff}, color.RGBA{0x5f, 0x65, 0x70, 0xff}
	tint := color.NRGBA{accent.R, accent.G, accent.B, 0x0c}
	draw.Draw(img, img.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(img, img.Rect, image.NewUniform(tint), image.Point{}, draw.Over)
	draw.Draw(img, image.Rect(0, height-band, width, height), image.NewUniform(accent), image.Point{}, draw.Src)

	shows := func(s string) bool {
		return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return style{font: bold}.glyph(r) == 0 })
	}
	seller, initial := strings.Join(strings.Fields(o.Operator), " "), "$"
	if shows(seller) {
		initial = strings.ToUpper(string([]rune(seller)[0]))
	}
	const iconSize, widest = 72, 288
	shown := image.Rect(0, 0, iconSize, iconSize)
	if logo == nil {
		draw.Draw(img, shown.Add(image.Pt(margin, top)), icon(iconSize, iconSize/4, o.Accent, initial), image.Point{}, draw.Over)
	} else { // as on the pages
		size := logo.Bounds().Size()
		scale := min(iconSize/float64(size.Y), widest/float64(size.X))
		shown = image.Rect(0, 0, max(1, int(scale*float64(size.X))), max(1, int(scale*float64(size.Y))))
		scaled.CatmullRom.Scale(img, shown.Add(image.Pt(margin, top+(iconSize-shown.Dy())/2)), logo, logo.Bounds(), scaled.Over, nil)
	}
	besideIcon := float32(margin + shown.Dx() + 24)
	host, hostAt := offer.Host(o.BaseURL), float32(top+iconSize/2+11)
	if shows(seller) && seller != host {
		style{font: bold, size: 38}.fitWidth(width-margin-besideIcon, seller).write(img, ink, besideIcon, top+30, seller)
		hostAt = top + 68
	}
	small := style{font: regular, size: 30}.fitWidth(width-margin-besideIcon, host)
	small.write(img, quiet, besideIcon, hostAt, host)

	const button, buttonTop = 76, 488
	act, bolder := action(o), style{font: bold, size: 34}
	right := margin + int(bolder.width(act)) + button
	for _, x := range []int{margin, right - button} {
		draw.Draw(img, image.Rect(x, buttonTop, x+button, buttonTop+button), icon(button, button/2, o.Accent, " "), image.Point{}, draw.Over)
	}
	draw.Draw(img, image.Rect(margin+button/2, buttonTop, right-button/2, buttonTop+button), image.NewUniform(accent), image.Point{}, draw.Src)
	bolder.write(img, o.Accent.On().RGBA(), margin+button/2, buttonTop+button/2+12, act)

	y := float32(buttonTop - 36)
	plain, name := style{font: regular, size: 46}, strings.Join(strings.Fields(o.Name), " ")
	if shows(name) {
		const lineHeight, space = 60, 24
		lines := plain.wrap(width-2*margin, name)
		about := style{font: regular, size: 32}.wrap(width-2*margin, strings.Join(strings.Fields(o.Description), " "))
		if len(lines) == 1 && len(about) == 1 && shows(about[0]) {
			style{font: regular, size: 32}.write(img, quiet, margin, y, about[0])
			y -= lineHeight
		}
		for _, line := range slices.Backward(lines) {
			plain.write(img, ink, margin, y, line)
			y -= lineHeight
		}
		y -= space
	}
	const unitWidth = 320
	large := style{font: bold, size: 132, tightening: 0.03}.fitWidth(width-2*margin-unitWidth, price(o))
	end := large.write(img, ink, margin-4, y, price(o))
	style{font: regular, size: 40}.write(img, quiet, end+26, y, "USD, one-time")
	return encode(img)
}

// action is the label of a button that names the kinds of payment methods.
func action(o *offer.Offer) string {
	kinds := []string{"Pay by card", "", ""}
	for _, rail := range o.Rails {
		switch rail.(type) {
		case *offer.USDC, *offer.Bitcoin:
			kinds[1] = "crypto"
		case *offer.BankTransfer:
			kinds[2] = "bank"
		}
	}
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "" })
	last := len(kinds) - 1
	return strings.Join(kinds[:last], ", ") + strings.Repeat(" or ", min(1, last)) + kinds[last]
}

func encode(img image.Image) []byte {
	var file bytes.Buffer
	_ = png.Encode(&file, img) // a buffer accepts all
	return file.Bytes()
}

// The fonts are compiled in and valid: none of their methods returns an error.
var (
	regular, _ = sfnt.Parse(goregular.TTF)
	bold, _    = sfnt.Parse(gobold.TTF)
)

// style is a font at a size in pixels. Characters are closer by a part of the size.
type style struct {
	font             *sfnt.Font
	size, tightening float32
}

// plainZero is the glyph of both fonts for a zero without a stroke through it.
const plainZero sfnt.GlyphIndex = 711

// glyph is 0 for a character that the font lacks.
func (s style) glyph(r rune) sfnt.GlyphIndex {
	if r == '0' {
		return plainZero
	}
	glyph, _ := s.font.GlyphIndex(nil, r)
	return glyph
}

// set adds the outlines of a line that starts at a point to a rasterizer, and returns the end
// of the line. The fonts have no kerning and no cubic curves.
func (s style) set(z *vector.Rasterizer, x, y float32, line string) float32 {
	pixels := func(n fixed.Int26_6) float32 { return float32(n) / 64 }
	size := fixed.Int26_6(s.size * 64)
	for _, r := range line {
		outline, _ := s.font.LoadGlyph(new(sfnt.Buffer), s.glyph(r), size, nil)
		for _, segment := range outline {
			x1, y1 := x+pixels(segment.Args[0].X), y+pixels(segment.Args[0].Y)
			switch segment.Op {
			case sfnt.SegmentOpMoveTo:
				z.MoveTo(x1, y1)
			case sfnt.SegmentOpLineTo:
				z.LineTo(x1, y1)
			case sfnt.SegmentOpQuadTo:
				z.QuadTo(x1, y1, x+pixels(segment.Args[1].X), y+pixels(segment.Args[1].Y))
			}
		}
		advance, _ := s.font.GlyphAdvance(nil, s.glyph(r), size, font.HintingNone)
		x += pixels(advance) - s.size*s.tightening
	}
	return x
}

// width is the width of a line in pixels.
func (s style) width(line string) float32 { return s.set(new(vector.Rasterizer), 0, 0, line) }

// write draws a line and returns its end.
func (s style) write(dst draw.Image, c color.Color, x, y float32, line string) float32 {
	r := image.Rect(0, int(y-s.size), dst.Bounds().Dx(), int(y+s.size/2)).Intersect(dst.Bounds())
	z := vector.NewRasterizer(r.Dx(), r.Dy())
	end := s.set(z, x, y-float32(r.Min.Y), line)
	z.Draw(dst, r, image.NewUniform(c), image.Point{})
	return end
}

// fitWidth is the style with a smaller size if a line is wider than a number of pixels.
func (s style) fitWidth(width float32, line string) style {
	s.size *= min(1, width/s.width(line))
	return s
}

// wrap breaks a text into one or two lines. An ellipsis replaces what does not fit.
func (s style) wrap(width float32, text string) []string {
	// start is as many words as fit with an end, or characters if the first word is too long.
	start := func(text, end string) string {
		words, characters := 0, 0
		for i, r := range text + " " {
			if s.width(text[:i]+end) > width {
				break
			}
			if characters = i; r == ' ' {
				words = i
			}
		}
		return text[:cmp.Or(words, characters)]
	}
	first := start(text, "")
	second := strings.TrimPrefix(text[len(first):], " ")
	switch start(second, "") {
	case "":
		return []string{first}
	case second:
		return []string{first, second}
	}
	return []string{first, start(second, "…") + "…"}
}
