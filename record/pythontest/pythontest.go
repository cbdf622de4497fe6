// Package pythontest finds the Python interpreters of the machine, for tests.
package pythontest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An Interpreter is a Python.
type Interpreter struct {
	Name   string // "3.12", "system 3.11"
	Minor  int    // of Python 3
	Path   string // of the program
	Prefix string // folder of its installation
}

// Versions are the minor versions that tests want to see.
var Versions = []int{9, 10, 11, 12, 13, 14, 15}

// All returns an interpreter of each version that the machine has, from pyenv, and the one of the system.
// testdata/pythons.sh makes a folder for PYENV_ROOT with the newest versions.
func All(t testing.TB) []Interpreter {
	root := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); root == "" && err == nil {
		root = filepath.Join(home, ".pyenv")
	}
	var all []Interpreter
	for _, minor := range Versions {
		found, _ := filepath.Glob(filepath.Join(root, "versions", "3."+strconv.Itoa(minor)+".*", "bin", "python3"))
		slices.Sort(found)
		if len(found) == 0 {
			t.Logf("no Python 3.%d here", minor)
			continue
		}
		path := found[len(found)-1]
		all = append(all, Interpreter{
			Name: "3." + strconv.Itoa(minor), Minor: minor, Path: path, Prefix: filepath.Dir(filepath.Dir(path)),
		})
	}
	const system = "/usr/bin/python3"
	if said, err := exec.Command(system, "-c", "import sys; print(sys.version_info[1])").Output(); err == nil {
		minor, _ := strconv.Atoi(strings.TrimSpace(string(said)))
		if slices.Contains(Versions, minor) {
			all = append(all, Interpreter{Name: "system 3." + strconv.Itoa(minor), Minor: minor, Path: system, Prefix: "/usr"})
		}
	}
	return all
}

// Each runs a test with each interpreter, in parallel. It skips the test where there is none.
func Each(t *testing.T, f func(*testing.T, Interpreter)) { with(t, All(t), f) }

// OldestAndNewest runs a test with the interpreters of the oldest and of the newest version, in parallel. It skips the
// test where there is none.
func OldestAndNewest(t *testing.T, f func(*testing.T, Interpreter)) {
	all := All(t)
	byVersion := func(a, b Interpreter) int { return a.Minor - b.Minor }
	if len(all) > 2 {
		all = []Interpreter{slices.MinFunc(all, byVersion), slices.MaxFunc(all, byVersion)}
	}
	with(t, all, f)
}

func with(t *testing.T, all []Interpreter, f func(*testing.T, Interpreter)) {
	if len(all) == 0 {
		t.Skip("no Python here")
	}
	for _, p := range all {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}
