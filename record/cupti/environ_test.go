package cupti

import (
	"slices"
	"testing"
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
}
