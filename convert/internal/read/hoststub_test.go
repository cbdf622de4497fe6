package read

import "testing"

// The symbol of a host stub names its kernel. Other symbols name none.
func TestHostStub(t *testing.T) {
	t.Parallel()
	for symbol, want := range map[string]string{
		"_Z24__device_stub__Z5smallPfPf":                    "_Z5smallPf",
		"_ZL24__device_stub__Z5smallPfPf":                   "_Z5smallPf",
		"_Z24__device_stub__Z5smallPfPf.constprop.0":        "_Z5smallPf",
		"_Z20__device_stub__Z1kPiPi":                        "_Z1kPi",
		"_ZL37__device_stub__Z4axpyIfEvT_PKS0_PS0_ifPKfPfi": "_Z4axpyIfEvT_PKS0_PS0_i",
		"_Z31__device_stub__ZN2ns5smallEPfS_PfS_":           "_ZN2ns5smallEPfS_",
		"_Z24__device_stub__Z5smallPf":                      "_Z5smallPf",
		"_Z25__device_stub__Z5smallPf":                      "", // cut off
		"_Z14__device_stub_v":                               "",
		"_Z3__device_stub__Z5smallPf":                       "",
		"_Z99999999999999999999__device_stub__Z5smallPfPf":  "",
		"_Z-24__device_stub__Z5smallPfPf":                   "",
		"_Z+24__device_stub__Z5smallPfPf":                   "",
		"_Z5smallPf":                                        "",
		"_ZN3abc24__device_stub__Z5smallPfEPf":              "",
		"_Z19__device_stub__plaini":                         "",
		"__device_stub__Z5smallPf":                          "",
		"_Z31__wrapper__device_stub_smallIfEvRPf":           "",
		"main": "", "": "", "_Z": "",
	} {
		got := ""
		if k := hostStub(symbol); k != nil {
			got = k.Name
		}
		if got != want {
			t.Errorf("%q is the host stub of %q, want %q", symbol, got, want)
		}
	}
}
