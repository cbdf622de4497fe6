package host

import "testing"

func TestKernelRelease(t *testing.T) {
	if KernelRelease() == "" {
		t.Error("the kernel has no release")
	}
}

func TestKernelVersion(t *testing.T) {
	if v := KernelVersion(); v < 5<<16|15<<8 {
		t.Errorf("the kernel has version %#x", v)
	}
	for release, want := range map[string]uint32{
		"6.18.44-fc": 0x06122c, "5.15.0-1-amd64": 0x050f00, "6.12-rc1": 0x060c00, "5.15.300": 0x050fff,
		"": 0, "six": 0, "6": 0, "300.1.1": 0, "6.4294967296": 0,
	} {
		if got := versionOf(release); got != want {
			t.Errorf("%q is version %#x, want %#x", release, got, want)
		}
	}
}
