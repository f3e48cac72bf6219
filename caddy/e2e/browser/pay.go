package browser

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Row is a row of the chooser after it was opened, and the page around it.
type Row struct {
	Rail string `json:"rail"`
	// Open are the rails whose rows are open.
	Open  []string `json:"open"`
	Text  string   `json:"text"`
	Links []string `json:"links"`
	// Height is that of the whole page, and Overflow by how much it is wider than the window, in pixels.
	Height   int `json:"height"`
	Overflow int `json:"overflow"`
	// Low are the labels of what is to be pressed and lower than 44 pixels.
	Low []string `json:"low"`
	// Before are the rails whose codes had been asked for when the row was opened, and After when its code was looked at.
	Before []string `json:"before"`
	After  []string `json:"after"`
}

// Rows opens each row of pages by the keyboard.
func (b *Browser) Rows(t testing.TB, views ...View) (rows [][]Row) {
	t.Helper()
	b.Do(t, "rows", views, &rows)
	require.Len(t, rows, len(views))
	return rows
}

// Copied is what the clipboard holds after a button was pressed.
type Copied struct {
	// Name is what the button is called.
	Name  string `json:"name"`
	Holds string `json:"holds"`
	// Called is what it is called then, and Announced what screen readers are told.
	Called    string   `json:"called"`
	Announced []string `json:"announced"`
}

// Chosen is the chooser after keys were pressed.
type Chosen struct {
	// Chosen are the open rails and that of the focus after each key, and Current the rails of the rows that are marked in the end.
	Chosen []struct {
		Open    []string `json:"open"`
		Focused string   `json:"focused"`
	} `json:"chosen"`
	Current []string `json:"current"`
}

// Choose presses keys in the chooser, or clicks the open row.
func (b *Browser) Choose(t testing.TB, view View, keys ...string) (c Chosen) {
	t.Helper()
	b.Do(t, "choose", struct {
		View
		Keys []string `json:"keys"`
	}{view, keys}, &c)
	return c
}

// Copy presses each copy button of a page.
func (b *Browser) Copy(t testing.TB, url string) []Copied {
	t.Helper()
	var copied []Copied
	b.Do(t, "copy", View{URL: url}, &copied)
	return copied
}

// Passing is how the price of an open row passes.
type Passing struct {
	URL string `json:"url"`
	// At is the time at which the page is opened, in milliseconds.
	At int64 `json:"at"`
	// Change is an address that changes the price once it is sent a POST; Minutes pass then, until the row Shows a text.
	Change  string `json:"change"`
	Minutes int    `json:"minutes"`
	Shows   string `json:"shows"`
	// Presses are the texts after each press of the button for a new price. Before each but the first the price changes again.
	Presses []string `json:"presses"`
}

// Price is what a row shows of a price that follows a rate.
type Price struct {
	Line string `json:"line"`
	// Values are what is shown and what is copied.
	Values [][2]string `json:"values"`
	Link   string      `json:"link"`
	// Code is the address of the QR image.
	Code string `json:"code"`
	// Reached are the buttons that can be used, and Announced is what screen readers are told.
	Reached   []string `json:"reached"`
	Announced string   `json:"announced"`
}

// Renew lets the time of a price pass.
func (b *Browser) Renew(t testing.TB, p Passing) (before, after, renewed Price) {
	t.Helper()
	if p.Presses == nil {
		p.Presses = []string{}
	}
	var shown struct {
		Before, After, Renewed Price
		Messages               []string
	}
	b.Do(t, "renew", p, &shown)
	for _, message := range shown.Messages {
		t.Log(message)
	}
	return shown.Before, shown.After, shown.Renewed
}
