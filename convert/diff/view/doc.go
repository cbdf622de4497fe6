// Package view writes what a comparison found: as text, Markdown, JSON and JUnit XML.
//
// Input: a comparison, and the outcomes of conditions. Output: text.
package view
