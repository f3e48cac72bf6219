package payoffer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/caddyserver/certmagic"
)

const (
	// storageQRKey is where the key of QR addresses is stored. Instances that
	// share Caddy's storage share the key, so that each serves the addresses
	// that another gave out.
	storageQRKey = "pay_offer/qr.key"
	qrKeySize    = 32
)

// loadQRKey loads the key, and makes it on the first start of all instances.
func loadQRKey(ctx context.Context, storage certmagic.Storage) ([]byte, error) {
	key, err := storage.Load(ctx, storageQRKey)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeQRKey(ctx, storage)
	}
	if err != nil {
		return nil, fmt.Errorf("loading the key of QR addresses from Caddy's storage: %w", err)
	}
	if len(key) != qrKeySize {
		return nil, fmt.Errorf("the key of QR addresses in Caddy's storage (%s) has %d bytes, not %d; delete it, and a new one is made",
			storageQRKey, len(key), qrKeySize)
	}
	return key, nil
}

func makeQRKey(ctx context.Context, storage certmagic.Storage) (key []byte, err error) {
	if err := storage.Lock(ctx, storageQRKey); err != nil {
		return nil, err
	}
	defer func() {
		// The lock is given back even where ctx has ended.
		err = errors.Join(err, storage.Unlock(context.WithoutCancel(ctx), storageQRKey))
	}()
	key, err = storage.Load(ctx, storageQRKey)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err // another instance was quicker
	}
	key = make([]byte, qrKeySize)
	rand.Read(key) // never fails
	return key, storage.Store(ctx, storageQRKey, key)
}
