//go:build unix

package buyer

import (
	"errors"
	"os"
)

// syncFolder makes the names in a folder outlast a power failure.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
