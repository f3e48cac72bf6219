package command

import (
	"io"
	"os"
)

// onTerminal reports whether what is read comes from a terminal, as far as files tell.
// The null device looks like one.
func onTerminal(in io.Reader) bool {
	file, isFile := in.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
