// Matrices as coloured cells: the residual stream, and attention.

const UP = [178, 66, 16], DOWN = [24, 92, 160], BLANK = [236, 236, 234];

/** value(row, column) on a canvas, NaN for cells that are not there yet; the colour tells sign and size. */
export function heat(canvas, rows, columns, value, { logarithmic = false, marked = -1 } = {}) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  let most = 0;
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const size = Math.abs(value(r, c));
      if (size > most && Number.isFinite(size)) most = size;
    }
  }
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) image.data.set(colour(value(r, c), most, logarithmic, r === marked), 4 * (r * columns + c));
  }
  context.putImageData(image, 0, 0);
}

function colour(value, most, logarithmic, marked) {
  if (Number.isNaN(value)) return [...BLANK, 255];
  const share = most ? Math.min(1, Math.abs(value) / most) : 0;
  // Six decades are told apart: what is smaller looks like nothing.
  const depth = logarithmic ? (share > 1e-6 ? 1 + Math.log10(share) / 6 : 0) : share ** 0.6;
  const [r, g, b] = value < 0 ? DOWN : UP;
  const paper = marked ? [255, 244, 200] : [255, 255, 255];
  return [r, g, b].map((c, i) => paper[i] + depth * (c - paper[i])).concat(255);
}
