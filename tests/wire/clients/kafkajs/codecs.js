// The codecs that kafkajs leaves to others: it compresses with gzip alone.
"use strict";

const snappy = require("kafkajs-snappy");
const { compressFrame, decompressFrame } = require("lz4-napi");
const { ZstdCodec } = require("zstd-codec");

const LEVEL = 3;

const zstd = new Promise((loaded) => ZstdCodec.run((codec) => loaded(new codec.Simple())));

module.exports = {
  snappy,
  lz4: () => ({
    compress: (encoder) => compressFrame(encoder.buffer),
    decompress: decompressFrame,
  }),
  zstd: () => ({
    compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer, LEVEL)),
    decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
  }),
};
