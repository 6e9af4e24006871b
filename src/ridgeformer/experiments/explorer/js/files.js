// Saved models as the page holds them: config.json as it is, model.safetensors compressed and in base64.

const KINDS = { F64: Float64Array, F32: Float32Array };

/** The bytes behind base64. */
export function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** What was compressed with gzip. */
export async function unpacked(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The tensors of a safetensors file by name, each {shape, data} in double precision. */
export function tensorsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const length = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const tensors = {};
  delete header.__metadata__;
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)) {
    if (!(dtype in KINDS)) throw new Error(`${name} has the type ${dtype}; F64 and F32 can be read.`);
    // A copy starts where the type wants it to start.
    const copy = bytes.slice(8 + length + from, 8 + length + to);
    tensors[name] = { shape, data: Float64Array.from(new KINDS[dtype](copy.buffer)) };
  }
  return tensors;
}
