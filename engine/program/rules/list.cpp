// The engine's own ops. A new one adds its file and its line here.
#include "engine/program/rule.hpp"

namespace plait::program {

extern const Rule kMap, kMatmul, kReduce, kSoftmax, kLogSoftmax, kSoftmaxGrad, kLogSoftmaxGrad,
    kCrossEntropy, kCrossEntropyGrad, kLayerNorm, kLayerNormGrad, kRmsNorm, kRmsNormGrad, kGather,
    kScatterAdd, kOneHot, kReshape, kTranspose, kSlice, kPad, kConcat, kRandom, kCollectiveStart,
    kCollectiveDone;

const std::vector<const Rule*>& core_rules() {
  static const std::vector<const Rule*> kRules = {&kMap,
                                                  &kMatmul,
                                                  &kReduce,
                                                  &kSoftmax,
                                                  &kLogSoftmax,
                                                  &kSoftmaxGrad,
                                                  &kLogSoftmaxGrad,
                                                  &kCrossEntropy,
                                                  &kCrossEntropyGrad,
                                                  &kLayerNorm,
                                                  &kLayerNormGrad,
                                                  &kRmsNorm,
                                                  &kRmsNormGrad,
                                                  &kGather,
                                                  &kScatterAdd,
                                                  &kOneHot,
                                                  &kReshape,
                                                  &kTranspose,
                                                  &kSlice,
                                                  &kPad,
                                                  &kConcat,
                                                  &kRandom,
                                                  &kCollectiveStart,
                                                  &kCollectiveDone};
  return kRules;
}

}  // namespace plait::program
