package cupti

import (
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/armedpage"
	"github.com/cudatrace/cudatrace/record/cupti/privatefolder"
)

func TestEnviron(t *testing.T) {
	t.Parallel()
	s := &Server{dir: "/tmp/x"}
	got := s.Environ([]string{"A=b", InjectionVar + "=/other.so", NVTXVar + "=/n.so", InjectionVar + "_NOT=1"})
	want := []string{"A=b", InjectionVar + "_NOT=1",
		InjectionVar + "=/tmp/x/libcudatrace.so", NVTXVar + "=/tmp/x/libcudatrace.so"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"": "", InjectionVar + "=": "", "CUDA_INJECTION64_PATHS=/x": "",
		InjectionVar + "=/nsys.so": InjectionVar + "=/nsys.so", NVTXVar + "=/n.so": NVTXVar + "=/n.so",
		NVTXVar + "=/usr/lib/libcupti.so.13": "", InjectionVar + "=/usr/lib/libcupti.so.13": InjectionVar + "=/usr/lib/libcupti.so.13",
	} {
		if got := Conflict([]string{"A=b", env}); got != want {
			t.Errorf("%q: got %q", env, got)
		}
	}
	armed, err := privatefolder.MakeArmed([]string{t.TempDir()}, library, armedpage.New(0))
	if err != nil {
		t.Fatal(err)
	}
	if env := []string{InjectionVar + "=" + armed}; Conflict(env) != "" || !IsArmed(env) || IsArmed([]string{InjectionVar + "=/nsys.so"}) {
		t.Error("programs that wait for a recorder have a conflict, or are not known")
	}
}
