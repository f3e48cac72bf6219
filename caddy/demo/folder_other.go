//go:build !unix

package demo

import "io/fs"

// mine is always true, because every user has their own folder for temporary files.
func mine(fs.FileInfo) bool { return true }
