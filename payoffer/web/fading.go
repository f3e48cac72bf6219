package web

import (
	"sync"
	"weak"

	"github.com/klauspost/compress/zstd"
)

// worthFading is how many bytes the body of a kept answer has that fades.
const worthFading = 16 << 10

// fading is a large body that is kept compressed, and as it is only until memory is
// wanted for something else: of a thousand offers with a long description each, few are
// asked for it now, and who crawls them asks once. Unpacking 100 KB takes 0.2 ms.
type fading struct {
	packed []byte // by zstd

	mu    sync.Mutex
	whole weak.Pointer[[]byte]
}

func newFading(body []byte) *fading {
	return &fading{packed: compress[codingZstd](body), whole: weak.Make(&body)}
}

// body is the whole one.
func (f *fading) body() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if whole := f.whole.Value(); whole != nil {
		return *whole
	}
	body := unpack(f.packed)
	f.whole = weak.Make(&body)
	return body
}

func unpack(packed []byte) []byte {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("web: " + err.Error()) // the options are these alone
	}
	defer d.Close()
	body, err := d.DecodeAll(packed, nil)
	if err != nil {
		panic("web: " + err.Error()) // we have packed it
	}
	return body
}
