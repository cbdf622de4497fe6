package cupti

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A Candidate is a libcupti that a process could load.
type Candidate struct {
	Path  string // as the process sees it
	Major uint32 // major number of its CUDA release (13), 0 if not known
}

// LocateCUPTI lists the places from which a process could load libcupti, best first: beside the CUDA
// libraries that it has mapped, in the toolkit that its environment names, in the usual places.
// In each place the newest comes first. Paths are looked up in the process's own root, so that
// the libraries of a container are found.
func LocateCUPTI(pid int, mapped []string) []Candidate {
	env, _ := procfs.Environment(pid) // none of another user's process: its toolkit may still be found
	return locate(fmt.Sprintf("/proc/%d/root", pid), mapped, env)
}

func locate(root string, mapped, env []string) []Candidate {
	var found []Candidate
	seen := map[string]bool{}
	left := maxFiles
	for _, pattern := range searchPatterns(mapped, env) {
		files := globInRoot(root, pattern+"/libcupti.so.*")
		files = files[:min(len(files), left)]
		left -= len(files)
		for _, c := range candidatesOf(root, files) {
			if !seen[c.Path] {
				seen[c.Path] = true
				found = append(found, c)
			}
		}
	}
	return found
}

// searchPatterns lists folders, as patterns of package filepath, best first.
func searchPatterns(mapped, env []string) []string {
	var beside, packages []string
	for _, file := range mapped {
		if cudaLibrary(path.Base(file)) {
			beside = addNew(beside, besides(path.Dir(file)))
		}
		packages = addNew(packages, sitePackages(file))
	}
	dirs := append(beside, packages...)
	for _, home := range toolkitHomes(env) {
		dirs = append(dirs, toolkit(quotePattern(home))...)
	}
	dirs = append(dirs, toolkit("/usr/local/cuda*")...)
	dirs = append(dirs, toolkit("/opt/cuda*")...)
	dirs = append(dirs, "/opt/nvidia/hpc_sdk/*/*/cuda/*/extras/CUPTI/lib64")
	return dirs
}

// addNew adds patterns that are not there yet, as long as there is room for more.
func addNew(patterns, more []string) []string {
	for _, p := range more {
		if len(patterns) < maxFolders && !slices.Contains(patterns, p) {
			patterns = append(patterns, p)
		}
	}
	return patterns
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

func toolkitHomes(env []string) []string {
	var homes []string
	for _, e := range env {
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

// candidatesOf returns the libcuptis among files, newest first.
func candidatesOf(root string, files []string) []Candidate {
	byFile := map[string]Candidate{} // one entry per library, with the shortest of its names
	for _, p := range files {
		soname, ok := readSoname(root, p)
		if !ok {
			continue
		}
		key := path.Dir(p) + "/" + soname
		if old, have := byFile[key]; !have || len(p) < len(old.Path) {
			byFile[key] = Candidate{Path: p, Major: SonameMajor(soname)}
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

// Bounds of what is looked at in folders that a process decides about.
const (
	maxFolders = 128     // folders of mapped libraries
	maxNames   = 1 << 16 // names that are read of a folder
	maxMatches = 256     // paths that match a pattern
	maxFiles   = 256     // files that are opened
)

// globInRoot lists the paths inside a root that match a pattern of package path, as a process with that root would see
// them.
func globInRoot(root, pattern string) []string {
	found := []string{""}
	for part := range strings.SplitSeq(strings.TrimPrefix(path.Clean(pattern), "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(part, `*?[\`) {
				next = append(next, dir+"/"+part)
				continue
			}
			for _, name := range namesIn(root, dir) {
				if ok, err := path.Match(part, name); err == nil && ok && len(next) < maxMatches {
					next = append(next, dir+"/"+name)
				}
			}
		}
		found = next
	}
	return found
}

// namesIn lists the names in a folder inside a root; none if it cannot be read.
func namesIn(root, dir string) []string {
	f, err := openInRoot(root, cmp.Or(dir, "/"), unix.S_IFDIR)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxNames) // what there is of a folder that cannot be read to its end
	slices.Sort(names)
	return names
}

// SonameMajor is the release of CUDA that a soname tells, 0 if it tells none: 13 for libcupti.so.13 and 11 for
// libcupti.so.11.8.
func SonameMajor(soname string) uint32 {
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
	f, err := openInRoot(root, p, unix.S_IFREG)
	if err != nil {
		return "", false
	}
	defer f.Close()
	lib, err := elfsym.Open(f)
	if err != nil {
		return "", false
	}
	if !strings.HasPrefix(lib.Soname(), "libcupti.so.") {
		return path.Base(p), true
	}
	return lib.Soname(), true
}

// openInRoot opens a file of a kind as a process with that root would: it follows links inside the root. It looks at
// the file before it opens it, since a device could act on being opened.
func openInRoot(root, p string, kind uint32) (*os.File, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, p, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	at := os.NewFile(uintptr(fd), p)
	defer at.Close()
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil || s.Mode&unix.S_IFMT != kind {
		return nil, cmp.Or(err, os.ErrInvalid)
	}
	return os.OpenFile(procfs.OpenFile(at), os.O_RDONLY|unix.O_NONBLOCK, 0)
}
