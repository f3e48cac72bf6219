package payoffer

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The preview image shows a logo that another handler of the site serves, and without one the seller's initial.
func TestPreviewShowsLogoOfSite(t *testing.T) {
	logo := image.NewRGBA(image.Rect(0, 0, 100, 100))
	draw.Draw(logo, logo.Rect, image.NewUniform(color.RGBA{0xff, 0, 0, 0xff}), image.Point{}, draw.Src)
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, logo))
	large := append(bytes.Clone(file.Bytes()), make([]byte, maxSiteFile)...)
	for name, c := range map[string]struct {
		content []byte
		serve   string
		red     bool
	}{
		"a file":         {file.Bytes(), "file_server", true},
		"behind a login": {file.Bytes(), "respond 401", false},
		"too large":      {large, "file_server", false},
		"no image":       {[]byte("<svg/>"), "file_server", false},
		"a redirect":     {file.Bytes(), "redir /logo.png https://example.org/logo.png", false},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t)
			require.NoError(t, os.WriteFile(filepath.Join(i.folder, "logo.png"), c.content, 0o600))
			sites := strings.Replace(smallest, "\trespond \"the application\" 200\n", "\troot * "+i.folder+"\n\t"+c.serve+"\n", 1)
			require.NoError(t, i.load(strings.Replace(sites, "pay_offer {\n", "pay_offer {\n\t\tlogo /logo.png\n", 1)))
			response := must(http.Get(i.service + "/v1/pay/preview.png"))(t)
			shown := must(png.Decode(response.Body))(t)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.red, shown.At(130, 116) == color.RGBA{0xff, 0, 0, 0xff})
		})
	}
}
