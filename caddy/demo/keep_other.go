//go:build !unix

package demo

import "io/fs"

// mine is true where every user has a folder of their own for temporary files.
func mine(fs.FileInfo) bool { return true }
