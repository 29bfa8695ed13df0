// Coefficients shared by the generated code and the interpreter. Each polynomial is a minimax fit
// of the relative error on the given range, rounded to f32 one coefficient after the other and
// refitted after each rounding; lowest power first.
#pragma once

namespace plait::cpu::poly {

inline constexpr float kLog2E = 1.44269504089f;
// ln 2 in two parts: the first has twelve bits, so n * kLn2Hi is exact for any exponent n; both are
// positive, so an infinite n stays infinite.
inline constexpr float kLn2Hi = 0.693115234375f;
inline constexpr float kLn2Lo = 3.19461849453e-5f;

// (e^r - 1 - r) / r^2, |r| <= ln(2)/2; the error of e^r - 1 is then 1.4e-8.
inline constexpr float kExp[] = {0.5f, 0.166665435f, 0.0416664034f, 0.00836660154f, 0.00139406789f};

// (log(1+f) - f) / f^2, -1/4 <= f <= 1/2; the error of log(1+f) is then 4.9e-9.
inline constexpr float kLog[] = {-0.5f,         0.333334506f,  -0.250001103f,
                                 0.19990848f,   -0.166468784f, 0.1447763f,
                                 -0.131639361f, 0.104725502f,  -0.0451522544f};

// (log(1+f) - f + f^2/2) / f^3 on the same range; the error of log(1+f) is then 1.5e-10.
inline constexpr float kLogTail[] = {0.333333313f,  -0.250000209f, 0.200003222f, -0.166656226f,
                                     0.142702118f,  -0.124987297f, 0.113822848f, -0.10552308f,
                                     0.0803042948f, -0.0317044929f};

// (erf(x) - x) / x in powers of x^2, |x| <= 1; error 1.4e-9.
inline constexpr float kErfSmall[] = {0.128379166f,   -0.37612626f,  0.112835787f,
                                      -0.0268533472f, 0.0051871622f, -0.00079978531f,
                                      7.80690316e-05f};

// log(erfc(x)), 1 <= x <= 4.05; the error of 1 - e^p is then 2.4e-11. For larger x, erf is 1 in
// f32.
inline constexpr float kErfLarge[] = {0.000188467719f, -1.12958026f,    -0.633216619f,
                                      -0.108421713f,   0.0252099913f,   -0.00420511235f,
                                      0.000441428158f, -2.16929184e-05f};
inline constexpr float kErfEnd = 4.05f;

}  // namespace plait::cpu::poly
