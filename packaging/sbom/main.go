// Command sbom lists the modules in a program, as CycloneDX JSON. Input: a program that Go built, which has the list in it.
// Output: the JSON, on standard output; its time is SOURCE_DATE_EPOCH.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A document is a bill of materials: https://cyclonedx.org/docs/1.5/json.
type document struct {
	BOMFormat    string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Ref     string `json:"bom-ref"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func main() {
	version := flag.String("version", "", "`version` of the program")
	flag.Parse()
	if flag.NArg() != 1 || *version == "" {
		fmt.Fprintln(os.Stderr, "usage: sbom -version VERSION PROGRAM")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), *version, os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(path, version, epoch string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the modules in %s cannot be read: %w", path, err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d, err := describe(info, version, sha256.Sum256(program))
	if err != nil {
		return err
	}
	if d.Metadata.Timestamp, err = timestamp(epoch); err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// timestamp is a time in seconds since 1970, as text, in the form of the document.
func timestamp(epoch string) (string, error) {
	if epoch == "" {
		return "", nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return "", fmt.Errorf("SOURCE_DATE_EPOCH=%s is no number of seconds", epoch)
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339), nil
}

// describe makes the document of a program with a checksum.
func describe(info *debug.BuildInfo, version string, sum [sha256.Size]byte) (*document, error) {
	main := module(info.Main.Path, version)
	main.Type = "application"
	main.PURL += fmt.Sprintf("?goos=%s&goarch=%s", setting(info, "GOOS"), setting(info, "GOARCH"))
	main.Ref = main.PURL
	main.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	components := []component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := module(m.Path, m.Version)
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("%s %s has no checksum, but %q", m.Path, m.Version, m.Sum)
		}
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) })
	used := dependency{Ref: main.Ref}
	for _, c := range components {
		used.DependsOn = append(used.DependsOn, c.Ref)
	}
	return &document{
		BOMFormat: "CycloneDX", SpecVersion: "1.5", Version: 1,
		Metadata: metadata{Component: main}, Components: components, Dependencies: []dependency{used},
	}, nil
}

func module(path, version string) component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return component{Ref: purl, Type: "library", Name: path, Version: version, PURL: purl}
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
