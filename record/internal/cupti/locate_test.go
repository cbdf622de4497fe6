package cupti

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/attacktest"
	"github.com/cudatrace/cudatrace/record/must"
)

// fakeRoot builds a file tree with libraries of the given sonames at the given
// paths; "-> " makes a link, and an empty soname a file that is no library.
func fakeRoot(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	built := t.TempDir()
	for p, soname := range files {
		full := filepath.Join(root, p)
		must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
		var err error
		switch target, link := strings.CutPrefix(soname, "-> "); {
		case link:
			err = os.Symlink(target, full)
		case soname == "":
			err = os.WriteFile(full, []byte("no library"), 0o600)
		default:
			err = os.Link(buildLibrary(t, built, soname), full)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func buildLibrary(t *testing.T, dir, soname string) string {
	lib := filepath.Join(dir, soname)
	if _, err := os.Stat(lib); err == nil {
		return lib
	}
	cmd := exec.Command("gcc", "-shared", "-nostdlib", "-Wl,-soname,"+soname, "-x", "c", "-o", lib, "/dev/null")
	must.Run(t, cmd)
	return lib
}

func TestLocate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		files  map[string]string
		mapped []string
		env    []string
		want   []Candidate
	}{
		{
			name: "toolkits-newest-first",
			files: map[string]string{
				"/usr/local/cuda-12.4/extras/CUPTI/lib64/libcupti.so.2024.1.1":   "libcupti.so.12",
				"/usr/local/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12":         "-> libcupti.so.2024.1.1",
				"/usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.13":         "libcupti.so.13",
				"/usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.12":         "libcupti.so.12",
				"/usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.broken":     "",
				"/usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti_static.a":      "",
				"/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcupti.so.2099": "libcupti.so.13",
			},
			want: []Candidate{
				{"/usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.13", 13},
				{"/usr/local/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12", 12},
				{"/usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.12", 12},
				{"/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcupti.so.2099", 13},
			},
		},
		{
			name: "python-packages-of-cuda-12",
			files: map[string]string{
				"/v/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12": "",
				"/v/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12":    "libcupti.so.12",
				"/usr/local/cuda/lib64/libcupti.so.13":                     "libcupti.so.13",
			},
			mapped: []string{"/usr/bin/python3", "/v/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12"},
			want: []Candidate{
				{"/v/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12", 12},
				{"/usr/local/cuda/lib64/libcupti.so.13", 13},
			},
		},
		{
			name:   "python-packages-of-cuda-13",
			files:  map[string]string{"/v/site-packages/nvidia/cu13/lib/libcupti.so.13": "libcupti.so.13"},
			mapped: []string{"/v/site-packages/torch/lib/libtorch_cuda.so"},
			want:   []Candidate{{"/v/site-packages/nvidia/cu13/lib/libcupti.so.13", 13}},
		},
		{
			name:  "environment-with-odd-characters",
			files: map[string]string{"/opt/my [cuda]*/lib64/libcupti.so.11.8": "libcupti.so.11.8"},
			env:   []string{"A=b", "CUDA_HOME=/opt/my [cuda]*", "CUDA_PATH=relative"},
			want:  []Candidate{{"/opt/my [cuda]*/lib64/libcupti.so.11.8", 11}},
		},
		{
			name: "link-stays-inside-the-root",
			files: map[string]string{
				"/real/libcupti.so.13":                 "libcupti.so.13",
				"/usr/local/cuda/lib64/libcupti.so.13": "-> /real/libcupti.so.13",
				"/usr/local/cuda/lib64/libcupti.so.12": "-> ../../../../../../../../../../../../dev/zero",
			},
			want: []Candidate{{"/usr/local/cuda/lib64/libcupti.so.13", 13}},
		},
		{name: "nothing", files: map[string]string{"/usr/lib/libc.so.6": ""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := locate(fakeRoot(t, test.files), test.mapped, test.env)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSonameMajor(t *testing.T) {
	t.Parallel()
	for soname, want := range map[string]uint32{
		"libcupti.so.13": 13, "libcupti.so.11.8": 11, "libcupti.so.2025.3.1": 0, "libcupti.so.": 0, "libcupti.so.x": 0,
	} {
		if got := SonameMajor(soname); got != want {
			t.Errorf("%s: got %d, want %d", soname, got, want)
		}
	}
}

// Files that another user made cost little, whatever their headers say, and none is opened that is not a regular file.
func TestHostileLibraries(t *testing.T) {
	t.Parallel()
	root := fakeRoot(t, map[string]string{"/opt/cuda/lib64/libcupti.so.12": "libcupti.so.12"})
	dir := filepath.Join(root, "/opt/cuda/lib64/")
	attacktest.ELFBomb(t, filepath.Join(dir, "libcupti.so.13"))
	must.Do(t, unix.Mkfifo(filepath.Join(dir, "libcupti.so.14"), 0o600))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := locate(root, nil, nil)
	runtime.ReadMemStats(&after)
	if diff := cmp.Diff([]Candidate{{"/opt/cuda/lib64/libcupti.so.13", 13}, {"/opt/cuda/lib64/libcupti.so.12", 12}}, got); diff != "" {
		t.Error(diff)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("it took %d MiB", used>>20)
	}
}

// Of a process that maps many libraries, and of a folder with many files, a few are looked at.
func TestManyLibraries(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	built := buildLibrary(t, t.TempDir(), "libcupti.so.13")
	var mapped []string
	for i := range 2 * maxFolders {
		dir := fmt.Sprintf("/d%d", i)
		mapped = append(mapped, dir+"/libcudart.so.13", dir+"/libcublas.so.13")
		must.Do(t, os.Mkdir(root+dir, 0o700))
		for j := range 20 {
			must.Do(t, os.Link(built, fmt.Sprintf("%s%s/libcupti.so.%d", root, dir, j)))
		}
	}
	if n := len(searchPatterns(mapped, nil)); n > maxFolders+20 {
		t.Errorf("%d folders are looked at", n)
	}
	if n := len(locate(root, mapped, nil)); n == 0 || n > maxFiles/20+1 {
		t.Errorf("%d libraries are found", n)
	}
	if found := globInRoot(root, "/d*/libcupti.so.*"); len(found) != maxMatches {
		t.Errorf("%d files match", len(found))
	}
}
