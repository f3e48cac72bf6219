// Command release builds the archives of a release, reproducibly: every build of
// a commit with the same Go gives the same bytes.
//
//	go run ./caddy/package/release [-o <folder>] [<os>/<arch>...]
//
// It runs at the root of a clean clone with its history. In addition to the
// archives it writes SHA256SUMS. File times are the commit's time, or SOURCE_DATE_EPOCH.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const name = "caddy-pay-offer"

// targets are the systems that archives are made for.
var targets = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

// flags are the build flags of xcaddy.mk. The tag release leaves out the demo.
// The version of the commit is in the program: 'caddy build-info' shows it.
var flags = []string{"-buildvcs=true", "-trimpath", "-ldflags", "-w -s", "-tags", "nobadger,nomysql,nopgx,release"}

// extra are the files of an archive after the program, in this order.
var extra = []string{"Caddyfile", "LICENSE", "README.md", "payoffer/command/systemd/pay-offer.service"}

func main() {
	log.SetFlags(0)
	folder := flag.String("o", "dist", "the folder of the archives")
	flag.Parse()
	if flag.NArg() > 0 {
		targets = flag.Args()
	}
	if err := release(*folder); err != nil {
		log.Fatal(err)
	}
}

// release writes the archives and their checksums into folder, which it makes.
func release(folder string) error {
	changed, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return err
	}
	if changed != "" {
		return errors.New("files are changed; commit or revert them, because a release is built from a commit")
	}
	version, err := git("describe", "--tags", "--always")
	if err != nil {
		return err
	}
	moment, err := moment()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, target := range targets {
		system, machine, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("%q is not a target; use for example linux/amd64", target)
		}
		files, err := contents(system, machine)
		if err != nil {
			return err
		}
		base := strings.Join([]string{name, strings.TrimPrefix(version, "v"), system, machine}, "_")
		pack, ending := packTar, ".tar.gz"
		if system == "windows" {
			pack, ending = packZip, ".zip"
		}
		var archive bytes.Buffer
		if err := pack(&archive, base, moment, files); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, base+ending), archive.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive.Bytes()), base+ending)
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// moment returns the time of every file.
func moment() (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		committed, err := git("log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, err
		}
		seconds = committed
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	return time.Unix(unix, 0).UTC(), err
}

func git(arguments ...string) (string, error) {
	command := exec.Command("git", arguments...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	return strings.TrimSpace(string(output)), err
}

// file is a file of an archive.
type file struct {
	name string
	mode os.FileMode
	data []byte
}

// contents returns the files of a target, the program first.
func contents(system, machine string) ([]file, error) {
	folder, err := os.MkdirTemp("", name)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "caddy")
	if system == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", append(append([]string{"build"}, flags...), "-o", program, "./caddy")...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building for %s/%s: %w", system, machine, err)
	}
	var files []file
	for _, path := range append([]string{program}, extra...) {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mode := os.FileMode(0o644)
		if path == program {
			mode = 0o755
		}
		files = append(files, file{filepath.Base(path), mode, data})
	}
	return files, nil
}

func packTar(to io.Writer, base string, moment time.Time, files []file) error {
	compressed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Name: base + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: moment, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.data); err != nil {
			return err
		}
	}
	return cmp.Or(archive.Close(), compressed.Close())
}

func packZip(to io.Writer, base string, moment time.Time, files []file) error {
	archive := zip.NewWriter(to)
	for _, f := range files {
		header := &zip.FileHeader{Name: base + "/" + f.name, Method: zip.Deflate, Modified: moment}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}
