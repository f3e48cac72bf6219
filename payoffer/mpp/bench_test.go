package mpp

import "testing"

// BenchmarkHeader is what a 402 costs more for its challenges.
func BenchmarkHeader(b *testing.B) {
	i := newIssuer(b, newOffer(b, "Authorization", "base"), "secret")
	b.ReportAllocs()
	for b.Loop() {
		i.AppendHeader(nil)
	}
}
