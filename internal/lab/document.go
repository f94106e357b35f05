package lab

import "strings"

// Block is a fenced code block of a Markdown document.
type Block struct {
	Line    int    // of the opening fence, from 1
	Section string // heading of level 2 above it
	Info    string // text behind the opening fence
	Text    string
}

// Blocks returns the fenced code blocks of a document, so that tests run what it shows. A block that
// does not end is left out.
func Blocks(markdown string) (blocks []Block) {
	var open *Block
	line, section := 0, ""
	for text := range strings.Lines(markdown) {
		line++
		info, fence := strings.CutPrefix(text, "```")
		switch {
		case fence && open != nil:
			blocks = append(blocks, *open)
			open = nil
		case fence:
			open = &Block{Line: line, Section: section, Info: strings.TrimSpace(info)}
		case open != nil:
			open.Text += text
		case strings.HasPrefix(text, "## "):
			section = strings.TrimSpace(text[3:])
		}
	}
	return blocks
}
