// Wheel makes a Python wheel of the program: the static binary as a script, the Python module beside it. The same
// inputs give the same bytes.
//
// Usage: wheel PROGRAM ARCH VERSION FOLDER, from the root of the repository; SOURCE_DATE_EPOCH is the time of the
// files.
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// platforms are the tags of PEP 600 by Go's name of the architecture. The program needs no C library.
var platforms = map[string]string{
	"amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
	"arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
}

func main() {
	if len(os.Args) != 5 || platforms[os.Args[2]] == "" {
		fmt.Fprintln(os.Stderr, "usage: wheel PROGRAM amd64|arm64 VERSION FOLDER")
		os.Exit(2)
	}
	if err := makeWheel(os.Args[1], platforms[os.Args[2]], pythonVersion(os.Args[3]), os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "wheel:", err)
		os.Exit(1)
	}
}

var candidate = regexp.MustCompile(`-(rc|a|b)`)

// pythonVersion is a version as PEP 440 writes it: 1.2.3rc1 for 1.2.3-rc1, 1.2.3.dev0+g12ab for 1.2.3-dev+g12ab.
func pythonVersion(version string) string {
	return strings.Replace(candidate.ReplaceAllString(version, "$1"), "-dev", ".dev0", 1)
}

// A wheelFile is a zip file and the record of what is in it.
type wheelFile struct {
	zip    *zip.Writer
	time   time.Time
	record strings.Builder
}

func (w *wheelFile) add(name string, mode fs.FileMode, data []byte) error {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: w.time}
	h.SetMode(mode)
	out, err := w.zip.CreateHeader(h)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	fmt.Fprintf(&w.record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
	_, err = out.Write(data)
	return err
}

func makeWheel(program, platform, version, folder string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := &wheelFile{zip: zip.NewWriter(&out), time: time.Unix(epoch, 0).UTC()}
	for _, of := range []struct{ pattern, folder string }{
		{"packaging/python/cudatrace/*.py", "cudatrace/"}, {"packaging/python/cudatrace/py.typed", "cudatrace/"},
		{"docs/*.md", "cudatrace/docs/"},
	} {
		sources, err := filepath.Glob(of.pattern)
		if err != nil {
			return err
		}
		for _, s := range sources {
			data, err := os.ReadFile(s)
			if err != nil {
				return err
			}
			if err := w.add(of.folder+path.Base(s), 0o644, data); err != nil {
				return err
			}
		}
	}
	name, info := "cudatrace-"+version, "cudatrace-"+version+".dist-info/"
	metadata := "Metadata-Version: 2.1\nName: cudatrace\nVersion: " + version +
		"\nSummary: trace recorder for CUDA programs\nHome-page: https://github.com/cudatrace/cudatrace\nLicense: " +
		"Apache-2.0\n" +
		"Requires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n" + string(readme)
	var tags strings.Builder
	for p := range strings.SplitSeq(platform, ".") {
		tags.WriteString("Tag: py3-none-" + p + "\n")
	}
	for _, f := range []struct {
		name string
		mode fs.FileMode
		data []byte
	}{
		{name + ".data/scripts/cudatrace", 0o755, binary},
		{info + "LICENSE", 0o644, license},
		{info + "METADATA", 0o644, []byte(metadata)},
		{info + "WHEEL", 0o644, []byte("Wheel-Version: 1.0\nGenerator: cudatrace\nRoot-Is-Purelib: false\n" + tags.String())},
	} {
		if err := w.add(f.name, f.mode, f.data); err != nil {
			return err
		}
	}
	if err := w.add(info+"RECORD", 0o644, []byte(w.record.String()+info+"RECORD,,\n")); err != nil {
		return err
	}
	if err := w.zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+"-py3-none-"+platform+".whl"), out.Bytes(), 0o644)
}
