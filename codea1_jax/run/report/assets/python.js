// Python made legible: line numbers and a few token colors.

const PYTHON_TOKEN = new RegExp(
  [
    /(?<comment>#[^\n]*)/,
    /(?<string>[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/,
    /(?<keyword>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)/,
    /(?<number>\b\d[\w.]*)/,
    /(?<name>\b[A-Za-z_]\w*)/,
  ]
    .map((part) => part.source)
    .join("|"),
  "g",
);

/** Splits a program into [kind, text] pairs that join to the program again. */
function pythonTokens(source) {
  const tokens = [];
  let end = 0;
  for (const match of source.matchAll(PYTHON_TOKEN)) {
    if (match.index > end) tokens.push(["plain", source.slice(end, match.index)]);
    const [kind] = Object.entries(match.groups).find(([, text]) => text !== undefined);
    tokens.push([kind === "name" ? "plain" : kind, match[0]]);
    end = match.index + match[0].length;
  }
  if (end < source.length) tokens.push(["plain", source.slice(end)]);
  return tokens;
}

/** A program as a block of code. The line breaks are part of its text, so that copying gives the program. */
function pythonBlock(source, label) {
  const code = element("code");
  let line = element("span", { class: "code-line" });
  for (const [kind, text] of pythonTokens(source)) {
    text.split("\n").forEach((piece, i) => {
      if (i > 0) {
        line.append("\n");
        code.append(line);
        line = element("span", { class: "code-line" });
      }
      if (piece) line.append(kind === "plain" ? piece : element("span", { class: `token-${kind}` }, piece));
    });
  }
  if (line.childNodes.length) code.append(line);
  return element("pre", { class: "code", tabindex: 0, role: "region", "aria-label": label }, code);
}
