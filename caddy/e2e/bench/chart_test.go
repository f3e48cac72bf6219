package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// chart is a picture of lines over a number that grows by tenfold steps; both axes are logarithmic.
type chart struct {
	file, title, across string
	names               []string
	points              map[string][][2]float64
}

func newChart(t *table, file, title, across string) *chart {
	c := &chart{file, title, across, nil, map[string][][2]float64{}}
	t.charts = append(t.charts, c)
	return c
}

// point is the next of a line, from left to right.
func (c *chart) point(line string, x, y float64) {
	if !slices.Contains(c.names, line) {
		c.names = append(c.names, line)
	}
	c.points[line] = append(c.points[line], [2]float64{x, y})
}

// Places in the picture, in pixels.
const (
	chartWidth, chartHeight           = 640, 320
	chartLeft, chartRight             = 60, 470 // the names of the lines stand to the right
	chartTop, chartBottom             = 40, 270
	chartStep, chartText, chartOffset = 18, 12, 4
)

var chartColours = []string{"#1f6feb", "#bc4c00", "#6e7781", "#1a7f37"}

// axis is where a number stands between two places.
type axis struct{ least, most, from, to float64 }

// newAxis has room for the numbers, from one power of ten to another.
func newAxis(numbers []float64, from, to float64) axis {
	least, most := math.Floor(math.Log10(slices.Min(numbers))), math.Ceil(math.Log10(slices.Max(numbers)))
	return axis{least, max(most, least+1), from, to}
}

func (a axis) at(number float64) float64 {
	return a.from + (math.Log10(number)-a.least)/(a.most-a.least)*(a.to-a.from)
}

// svg is the picture. It has a background, so that it can be read on any page.
func (c *chart) svg() string {
	var xs, ys []float64
	for _, points := range c.points {
		for _, p := range points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	x, y := newAxis(xs, chartLeft, chartRight), newAxis(ys, chartBottom, chartTop)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="%d">`+"\n", chartWidth, chartHeight, chartText)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(&out, `<text x="%d" y="20" font-weight="bold">%s</text>`+"\n", chartLeft, c.title)
	for power := x.least; power <= x.most; power++ {
		at := x.at(math.Pow(10, power))
		fmt.Fprintf(&out, `<path d="M%.0f %dV%d" stroke="#ddd"/><text x="%.0f" y="%d" text-anchor="middle">%s</text>`+"\n",
			at, chartTop, chartBottom, at, chartBottom+chartStep, power10(power))
	}
	for power := y.least; power <= y.most; power++ {
		at := y.at(math.Pow(10, power))
		fmt.Fprintf(&out, `<path d="M%d %.0fH%d" stroke="#ddd"/><text x="%d" y="%.0f" text-anchor="end">%s</text>`+"\n",
			chartLeft, at, chartRight, chartLeft-chartOffset, at+chartOffset, power10(power))
	}
	fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (chartLeft+chartRight)/2, chartBottom+2*chartStep, c.across)
	for i, name := range c.names {
		colour := chartColours[i%len(chartColours)]
		var line, dots strings.Builder
		for _, p := range c.points[name] {
			fmt.Fprintf(&line, "%.1f,%.1f ", x.at(p[0]), y.at(p[1]))
			fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %s</title></circle>`, x.at(p[0]), y.at(p[1]), colour, name, number(p[1]))
		}
		fmt.Fprintf(&out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>%s`+"\n", strings.TrimSpace(line.String()), colour, &dots)
		fmt.Fprintf(&out, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", chartRight+2*chartOffset, chartTop+chartStep*(i+1), colour, name)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// power10 is a power of ten as a person writes it.
func power10(power float64) string {
	if power < 0 {
		return fmt.Sprintf("%.*f", int(-power), math.Pow(10, power))
	}
	return fmt.Sprintf("%.0f", math.Pow(10, power))
}
