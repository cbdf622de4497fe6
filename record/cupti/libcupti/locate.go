// Package libcupti finds the CUPTI libraries that a process could load. Input: a process and the files
// that it has mapped. Output: paths, best first.
package libcupti

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Candidate is a libcupti that a process could load.
type Candidate struct {
	Path  string // as the process sees it
	Major uint32 // major number of its CUDA release (13), 0 if not known
}

// Locate lists the places from which a process could load libcupti, best first: beside the CUDA
// libraries that it has mapped, in the toolkit that its environment names, in the usual places.
// In each place the newest comes first. Paths are looked up in the process's own root, so that
// the libraries of a container are found.
func Locate(pid int, mapped []string) []Candidate {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		env = nil // another user's process: its toolkit may still be found
	}
	return locate(fmt.Sprintf("/proc/%d/root", pid), mapped, string(env))
}

func locate(root string, mapped []string, env string) []Candidate {
	var found []Candidate
	seen := map[string]bool{}
	for _, pattern := range searchPatterns(mapped, env) {
		for _, c := range candidatesIn(root, pattern) {
			if !seen[c.Path] {
				seen[c.Path] = true
				found = append(found, c)
			}
		}
	}
	return found
}

// searchPatterns lists folders, as patterns of package filepath, best first.
func searchPatterns(mapped []string, env string) []string {
	var dirs []string
	for _, file := range mapped {
		if cudaLibrary(path.Base(file)) {
			dirs = append(dirs, besides(path.Dir(file))...)
		}
	}
	for _, file := range mapped {
		dirs = append(dirs, sitePackages(file)...)
	}
	for _, home := range toolkitHomes(env) {
		dirs = append(dirs, toolkit(quotePattern(home))...)
	}
	dirs = append(dirs, toolkit("/usr/local/cuda*")...)
	dirs = append(dirs, toolkit("/opt/cuda*")...)
	dirs = append(dirs, "/opt/nvidia/hpc_sdk/*/*/cuda/*/extras/CUPTI/lib64")
	return dirs
}

// cudaLibrary reports whether a file has the name of a library of the toolkit or the driver.
func cudaLibrary(base string) bool {
	for _, name := range []string{
		"libcupti", "libcudart", "libcublas", "libcudnn", "libcufft", "libcurand",
		"libcusolver", "libcusparse", "libnvrtc", "libnvJitLink", "libcuda",
	} {
		if strings.HasPrefix(base, name) {
			return true
		}
	}
	return false
}

// besides lists the places of libcupti relative to a folder with CUDA libraries: the folder
// itself (packages of CUDA 13, conda), a sister package (nvidia/cublas/lib and
// nvidia/cuda_cupti/lib), and the toolkit that has the folder as its lib64.
func besides(dir string) []string {
	d := quotePattern(dir)
	return []string{
		d,
		path.Join(d, "../../cuda_cupti/lib"),
		path.Join(d, "../extras/CUPTI/lib64"),
		path.Join(d, "../../../extras/CUPTI/lib64"), // from targets/x86_64-linux/lib
	}
}

// sitePackages lists the folders that may hold libcupti beside a file in a folder of Python
// packages.
func sitePackages(file string) []string {
	for _, name := range []string{"/site-packages/", "/dist-packages/"} {
		if i := strings.Index(file, name); i >= 0 {
			nvidia := quotePattern(file[:i+len(name)]) + "nvidia/"
			return []string{nvidia + "cu[0-9]*/lib", nvidia + "cuda_cupti/lib"}
		}
	}
	return nil
}

func toolkitHomes(env string) []string {
	var homes []string
	for _, e := range strings.Split(env, "\x00") {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CONDA_PREFIX":
			if path.IsAbs(value) {
				homes = append(homes, path.Clean(value))
			}
		}
	}
	return homes
}

func toolkit(home string) []string {
	return []string{home + "/extras/CUPTI/lib64", home + "/targets/*/lib", home + "/lib64", home + "/lib"}
}

// quotePattern returns the pattern that matches only the given path.
func quotePattern(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// candidatesIn returns the libcuptis in the folders of a pattern, newest first.
func candidatesIn(root, pattern string) []Candidate {
	files, err := filepath.Glob(quotePattern(root) + pattern + "/libcupti.so.*")
	if err != nil {
		return nil // the pattern is malformed: none of ours is
	}
	byFile := map[string]Candidate{} // one entry per library, with the shortest of its names
	for _, file := range files {
		p := strings.TrimPrefix(file, root)
		soname, ok := readSoname(root, p)
		if !ok {
			continue
		}
		key := path.Dir(p) + "/" + soname
		if old, have := byFile[key]; !have || len(p) < len(old.Path) {
			byFile[key] = Candidate{Path: p, Major: Major(soname)}
		}
	}
	var found []Candidate
	for _, c := range byFile {
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Major, a.Major), cmp.Compare(a.Path, b.Path))
	})
	return found
}

// Major is the release of CUDA that a soname tells, 0 if it tells none: 13 for libcupti.so.13 and 11 for libcupti.so.11.8.
func Major(soname string) uint32 {
	major, _, _ := strings.Cut(strings.TrimPrefix(soname, "libcupti.so."), ".")
	n, err := strconv.ParseUint(major, 10, 16)
	if err != nil || n >= 2000 { // libcupti.so.2025.3.1 has the year
		return 0
	}
	return uint32(n)
}

// readSoname returns the soname of a library inside a root; ok is false if the file is not a
// library for this machine.
func readSoname(root, p string) (soname string, ok bool) {
	f, err := openInRoot(root, p)
	if err != nil {
		return "", false
	}
	defer f.Close()
	lib, err := elf.NewFile(f)
	if err != nil || lib.Machine != machine() {
		return "", false
	}
	names, err := lib.DynString(elf.DT_SONAME)
	if err != nil || len(names) != 1 || !strings.HasPrefix(names[0], "libcupti.so.") {
		return path.Base(p), err == nil
	}
	return names[0], true
}

func machine() elf.Machine {
	if runtime.GOARCH == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}

// openInRoot opens a regular file as a process with that root would: it follows links inside
// the root.
func openInRoot(root, p string) (*os.File, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, p, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT,
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), p)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, os.ErrInvalid)
	}
	return f, nil
}
