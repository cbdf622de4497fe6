package libcupti

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeRoot builds a file tree with libraries of the given sonames at the given
// paths; "-> " makes a link, and an empty soname a file that is no library.
func fakeRoot(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	built := t.TempDir()
	for p, soname := range files {
		full := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
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
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

func TestLocate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		files  map[string]string
		mapped []string
		env    string
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
			env:   "A=b\x00CUDA_HOME=/opt/my [cuda]*\x00CUDA_PATH=relative\x00",
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
		if got := Major(soname); got != want {
			t.Errorf("%s: got %d, want %d", soname, got, want)
		}
	}
}
