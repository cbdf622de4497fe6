// Package metadata says under which circumstances a program runs: its environment variables as far as
// they are on a list, the commit of its working folder, and versions of NVIDIA's software. The input is
// an environment, a folder, the paths of mapped files. The output is text for the log. No program is
// run, and nothing is sent anywhere.
//
// Nothing secret is to get into a log, which people pass on: a variable that is not on the list is
// never read, and URLs lose their credentials. docs/metadata.md tells people.
package metadata
